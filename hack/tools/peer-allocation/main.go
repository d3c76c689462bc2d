package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := dispatch(ctx, args)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer-allocation:", err)
		return 1
	}
	return 0
}

// dispatch runs the subcommand that the first argument names.
func dispatch(ctx context.Context, args []string) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("say allocate or seed")
	}
	switch args[0] {
	case "allocate":
		return allocate(ctx, args[1:])
	case "seed":
		return seed(ctx, args[1:])
	default:
		return nil, fmt.Errorf("say allocate or seed, not %q", args[0])
	}
}
