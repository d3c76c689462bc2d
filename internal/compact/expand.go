package compact

// Expand returns the full object of a compact one, and anything else as it is.
func Expand(o any) any {
	switch c := o.(type) {
	case *Service:
		return c.DeepCopyObject()
	case *IPAddress:
		return c.DeepCopyObject()
	default:
		return o
	}
}
