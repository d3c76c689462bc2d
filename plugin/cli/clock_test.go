package cli

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A workstation whose clock is wrong takes the API server's; a second more or less is rounding.
func TestServerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			date string
			want time.Duration
		}{
			"ahead":    {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), time.Minute},
			"behind":   {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), -time.Hour},
			"rounded":  {time.Now().Add(-time.Second).UTC().Format(http.TimeFormat), 0},
			"not told": {"", 0},
			"no date":  {"soon", 0},
		} {
			c := &ServerClock{}
			answer := &http.Response{Header: http.Header{"Date": []string{tc.date}}}
			got, err := c.observe(roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil })).RoundTrip(nil)
			if got != answer || err != nil {
				t.Errorf("%s: the answer gets lost: %v, %v", name, got, err)
			}
			if ahead := time.Until(c.Now()); ahead != tc.want || c.Since(time.Now()) != tc.want {
				t.Errorf("%s: the server is ahead by %v, want %v", name, ahead, tc.want)
			}
		}
		c, away := &ServerClock{}, errors.New("away")
		if _, err := c.observe(roundTripper(func(*http.Request) (*http.Response, error) { return nil, away })).RoundTrip(nil); !errors.Is(err, away) {
			t.Errorf("no answer: %v", err)
		}
	})
}
