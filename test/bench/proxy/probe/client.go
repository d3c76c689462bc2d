package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// process is the program in a namespace.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *json.Decoder
	raw   io.Reader
	said  strings.Builder // stderr
}

func start(n *network.Namespace, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the own program: %w", err)
	}
	p := &process{}
	// It ends with its stdin, so no context has to end it.
	p.cmd = n.Command(context.Background(), self, append([]string{Name}, args...)...)
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1") // a signal would end a connect()
	p.cmd.Stderr = &p.said
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.raw, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(p.raw)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the probe in %s: %w", n.Host(), err)
	}
	return p, nil
}

// Close ends the program.
func (p *process) Close() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// Pid is the program's. In the network namespace it is the same process.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// CPU is the processor on which connections are measured: the last one.
func CPU() string { return strconv.Itoa(runtime.NumCPU() - 1) }

// Server accepts connections in a namespace until Close.
type Server struct {
	*process
	port uint16
}

// Serve listens on an address, unspecified for all of its family.
func Serve(n *network.Namespace, on netip.AddrPort) (*Server, error) { return serve(n, "server", on) }

// Answer is Serve for a server that answers requests.
func Answer(n *network.Namespace, on netip.AddrPort) (*Server, error) {
	return serve(n, "answerer", on)
}

func serve(n *network.Namespace, what string, on netip.AddrPort) (*Server, error) {
	p, err := start(n, what, CPU(), on.String())
	if err != nil {
		return nil, err
	}
	server := &Server{process: p}
	if _, err := fmt.Fscanln(p.raw, &server.port); err != nil {
		return nil, fmt.Errorf("waiting for the server in %s: %w", n.Host(), errors.Join(err, p.Close(), errors.New(p.said.String())))
	}
	return server, nil
}

// Client makes connections from a namespace until Close. Only one goroutine may use it at a time.
type Client struct{ *process }

// NewClient starts a client.
func NewClient(n *network.Namespace) (*Client, error) {
	p, err := start(n, "client", CPU())
	if err != nil {
		return nil, err
	}
	return &Client{p}, nil
}

// Count measures n connections to the targets in turn; without targets, to those of the last call.
func (c *Client) Count(n int, targets ...netip.AddrPort) (Times, error) {
	answer, err := c.ask(request{Targets: targets, Count: n})
	return answer.Times, err
}

// For measures for a while, with a pause after each connection.
func (c *Client) For(d, pause time.Duration, targets ...netip.AddrPort) (Times, error) {
	answer, err := c.ask(request{Targets: targets, For: d, Pause: pause})
	return answer.Times, err
}

// Until connects again and again until streak connections in a row have the outcome, and returns
// when the first had it; false after timeout.
func (c *Client) Until(to netip.AddrPort, o Outcome, streak int, timeout time.Duration) (Moment, bool, error) {
	answer, err := c.ask(request{Targets: []netip.AddrPort{to}, Until: o, Streak: streak, Timeout: timeout})
	return answer.At, answer.At != 0, err
}

// Exchange has n requests answered on one connection to a target or, with each, on a connection of
// its own for each, to the targets in turn. It returns how many were answered in a second: on one
// connection without what connecting took, otherwise from socket() to close().
func (c *Client) Exchange(n int, each bool, targets ...netip.AddrPort) (rate float64, err error) {
	answer, err := c.ask(request{Targets: targets, Exchange: n, Each: each})
	return answer.Rate, err
}

func (c *Client) ask(r request) (answer response, err error) {
	if err := json.NewEncoder(c.stdin).Encode(r); err != nil {
		return answer, fmt.Errorf("asking the probe: %w: %s", err, c.said.String())
	}
	if err := c.out.Decode(&answer); err != nil {
		return answer, fmt.Errorf("hearing from the probe: %w: %s", err, c.said.String())
	}
	if answer.Error != "" {
		return answer, fmt.Errorf("the probe failed: %s", answer.Error)
	}
	return answer, nil
}
