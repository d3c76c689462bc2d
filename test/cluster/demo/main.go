// Demo is an application to put behind a Service: it says in which pod it runs, and asks others.
//
//	demo                 answers HTTP requests on port 8080
//	demo URL             prints what another one answers
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 2 {
		return ask(os.Args[1])
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s answers %s\n", name, r.RemoteAddr)
	})}
	return server.ListenAndServe()
}

func ask(url string) error {
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
