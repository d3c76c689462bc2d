package cli

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// ServerClock tells the API server's time, by which the age of objects is measured: a workstation
// that is a minute ahead would grant no grace. Until the API server answers it tells local time.
type ServerClock struct {
	ahead atomic.Int64 // of the server, in nanoseconds
}

var _ clock.PassiveClock = (*ServerClock)(nil)

// Now implements clock.PassiveClock.
func (c *ServerClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Since implements clock.PassiveClock.
func (c *ServerClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// observe reads the time off passing answers. They tell seconds: smaller differences are ignored.
func (c *ServerClock) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			c.read(response.Header.Get("Date"))
		}
		return response, err
	})
}

func (c *ServerClock) read(date string) {
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
