package proxy

import "context"

// footprint looks at what the proxy has in the kernel.
func (b *bench) footprint(ctx context.Context, s *stand) error {
	if s.who.Variant == "" {
		list, err := s.bed.Node.Run(ctx, "nft", "list", "ruleset")
		s.Footprint = weighTables(list)
		return err
	}
	save, err := s.bed.Node.Run(ctx, b.tool(s.who.Variant)+"-save")
	if err != nil {
		return err
	}
	s.Footprint = weigh(save)
	sets, err := s.bed.Node.Run(ctx, "ipset", "save")
	s.Footprint.weighSets(sets)
	return err
}
