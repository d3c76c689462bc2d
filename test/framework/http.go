package framework

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// askOK asks a URL and is satisfied with 200 alone. The error holds what the server said instead.
func askOK(ctx context.Context, client *http.Client, url string) error {
	_, err := ask(ctx, client, url, "")
	return err
}

// ask returns the body of a URL that answers 200. token is sent if there is one.
func ask(ctx context.Context, client *http.Client, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

// plainClient returns a client that leaves no connection and no goroutine behind.
func plainClient() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}
