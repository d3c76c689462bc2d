package main

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// serverClock tells the API server's time, by which the age of objects is to be measured: a workstation that is a minute ahead
// would grant no grace at all. Until the first answer of the API server it tells the local time.
type serverClock struct {
	ahead atomic.Int64 // of the server, in nanoseconds
}

var _ clock.PassiveClock = (*serverClock)(nil)

// Now implements clock.PassiveClock.
func (c *serverClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Since implements clock.PassiveClock.
func (c *serverClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// observe reads the time off the answers that pass. They tell seconds, so that small differences are none.
func (c *serverClock) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			c.read(response.Header.Get("Date"))
		}
		return response, err
	})
}

func (c *serverClock) read(date string) {
	server, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ahead := time.Until(server)
	if ahead.Abs() < 2*time.Second {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

// roundTripper is a function as http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
