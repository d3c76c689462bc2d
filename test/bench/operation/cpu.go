package operation

import "time"

// process is what is measured of a program: a framework.Process.
type process interface {
	RSS() (int64, error)
	CPUTime() (time.Duration, error)
}

// reading is the processor time of some programs at one moment.
type reading struct {
	of    []process
	times []time.Duration
}

func readCPU(of ...process) (r reading, err error) {
	r.of, r.times = of, make([]time.Duration, len(of))
	for i, p := range of {
		if r.times[i], err = p.CPUTime(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// sinceThen puts what each program has used since the reading into one target each, in the same order.
func (r reading) sinceThen(targets ...*time.Duration) error {
	now, err := readCPU(r.of...)
	if err != nil {
		return err
	}
	for i, target := range targets {
		*target = now.times[i] - r.times[i]
	}
	return nil
}
