// Demo is an application to put behind a Service: it says in which pod it runs, and asks its peers.
//
//	demo                 answers HTTP requests on port 8080
//	demo URL             prints what another one answers
//	demo -watch URL...   asks all without end; prints each second how often, and how many were lost
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
	switch {
	case len(os.Args) == 2:
		return ask(os.Stdout, os.Args[1])
	case len(os.Args) > 2 && os.Args[1] == "-watch":
		watch(os.Args[2:])
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

// ask makes a connection of its own.
func ask(to io.Writer, url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(to, answer.Body)
	return err
}

// watch never returns. What was lost is printed when it is.
func watch(urls []string) {
	asked, lost := 0, 0
	for told := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		for _, url := range urls {
			asked++
			if err := ask(io.Discard, url); err != nil {
				lost++
				fmt.Println("lost:", err)
			}
		}
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Printf("asked %d lost %d\n", asked, lost)
		}
	}
}
