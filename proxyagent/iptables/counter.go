package iptables

// InvalidDropped returns how many packets of invalid connection-tracking state had been dropped when the rules were compared last, since
// the rule was written last. It asks nobody and waits for nobody: iptables-nft reads all rules for one counter, and starts anew whenever they change meanwhile.
func (p *Proxier) InvalidDropped() uint64 {
	return p.invalid.Load()
}
