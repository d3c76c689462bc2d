package framework

import "context"

// Program is a process beside a control plane that this package knows nothing of.
type Program struct {
	// Name is that of the process in errors, and of its log in the control plane's folder.
	Name string
	// Path is that of the executable, Env is added to the environment.
	Path string
	Args []string
	Env  []string
	// Ready returns nil when the program serves. Nil: Start does not wait.
	Ready func(context.Context) error
}

// StartProgram starts a program that ends with the control plane.
func (c *ControlPlane) StartProgram(ctx context.Context, o Program) (*Process, error) {
	p := &Process{name: o.Name, log: c.logFor(o.Name), program: o.Path, args: func() []string { return o.Args }, env: o.Env, ready: o.Ready}
	return p, c.run(ctx, p)
}
