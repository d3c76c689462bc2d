package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

//go:embed assets
var embedded embed.FS

// Source answers the page: a value for JSON, or an error for the user. It may run concurrently.
type Source func(ctx context.Context, query url.Values) (any, error)

// ErrQuestion marks errors of a Source that are the question's fault.
var ErrQuestion = errors.New("the question is wrong")

// newToken returns the word that begins the path of every request. It cannot be guessed.
func newToken() string { return rand.Text() }

// serve answers on a listener until ctx ends; then it returns nil.
func serve(ctx context.Context, l net.Listener, token string, sources map[string]Source) error {
	server := &http.Server{Handler: handler(token, sources), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.Serve(l)
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// handler serves the page at /TOKEN/ and the sources at /TOKEN/api/NAME, by GET alone.
func handler(token string, sources map[string]Source) http.Handler {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	_ = mime.AddExtensionType(".js", "text/javascript") // what the registry of Windows says may be wrong, and browsers insist
	files := http.FileServerFS(assets)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case !loopback(r.Host) || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 || !found:
			w.WriteHeader(http.StatusForbidden)
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case rest != "" && foreign(r): // the page itself may be opened from elsewhere: from a file, or a link in a terminal
			w.WriteHeader(http.StatusForbidden)
		default:
			secure(w.Header())
			if name, ok := strings.CutPrefix(rest, "api/"); ok {
				answer(w, r, sources[name])
				return
			}
			http.StripPrefix("/"+token, files).ServeHTTP(w, r)
		}
	})
}

// loopback reports whether a Host header is a name of ours. Any other one was made to lead here.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && a.IsLoopback()
}

// foreign reports whether a browser names another origin as the sender. Other programs name none.
func foreign(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	return site != "" && site != "same-origin" && site != "none" || origin != "" && origin != "http://"+r.Host
}

// secure has browsers run only our scripts, show the page in no frame, and not keep or leak it.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// answer sends what a source says, or nothing if the page has it already.
func answer(w http.ResponseWriter, r *http.Request, source Source) {
	if source == nil {
		http.NotFound(w, r)
		return
	}
	value, err := source(r.Context(), r.URL.Query())
	if r.Context().Err() != nil {
		return // the client has hung up
	}
	code := http.StatusOK
	if err != nil {
		value, code = map[string]string{"error": err.Error()}, http.StatusBadGateway
		if errors.Is(err, ErrQuestion) {
			code = http.StatusBadRequest
		}
	}
	body, err := newBody(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", body.tag)
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusOK && r.Header.Get("If-None-Match") == body.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(code)
	_, _ = w.Write(body.text) // a client that hangs up needs no answer
}

// body is an answer as it is sent: its JSON, and the tag by which the page knows it again.
type body struct {
	text []byte
	tag  string
}

// newBody makes JSON of a value. A Source that keeps its answers may give bodies, which stay.
func newBody(value any) (body, error) {
	if made, ok := value.(body); ok {
		return made, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return body{}, fmt.Errorf("writing an answer: %w", err)
	}
	sum := sha256.Sum256(text)
	return body{text, `"` + hex.EncodeToString(sum[:8]) + `"`}, nil
}
