package status

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

func TestHealth(t *testing.T) {
	g := &fake{make: func(int) *state.Snapshot { t.Error("a health check took a snapshot"); return fixed() }}
	public, _ := start(t, Options{Guard: g})
	for _, c := range []struct {
		name         string
		health       state.Health
		err          error
		alive, ready string
	}{
		{"all is well", state.Health{}, nil, "200 ok", "200 ok"},
		{"paused", state.Health{Paused: true}, nil, "200 ok", "200 ok (paused)"},
		{"database away", state.Health{Down: true}, nil, "200 ok", "200 ok (database away)"},
		{"draining", state.Health{Draining: true}, nil, "200 ok", "503 draining"},
		{"all at once", state.Health{Draining: true, Paused: true, Down: true}, nil, "200 ok", "503 draining (paused, database away)"},
		{"stuck", state.Health{}, errStuck, "503 the event loop did not answer within 1s", "503 the event loop did not answer within 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.set(func(f *fake) { f.health, f.err = c.health, c.err })
			for path, want := range map[string]string{"/healthz": c.alive, "/readyz": c.ready} {
				code, header, body := get(t, public+path)
				if got := http.StatusText(code); got == "" || statusLine(code, body) != want {
					t.Errorf("%s: %q, want %q", path, statusLine(code, body), want)
				}
				if header.Get("Cache-Control") != "no-store" {
					t.Error("the answer may be cached")
				}
			}
		})
	}
	g.set(func(f *fake) { f.health, f.err = state.Health{Draining: true, Paused: true}, nil })
	if code, _, body := get(t, public+"/readyz", "Accept", "application/json"); statusLine(code, body) != `503 {"ok":false,"reason":"draining","notes":["paused"]}` {
		t.Errorf("%d %s", code, body)
	}
}

func statusLine(code int, body string) string {
	return strings.TrimSpace(strings.Join([]string{itoa(code), body}, " "))
}

func TestPathsAndMethods(t *testing.T) {
	public, admin := start(t, Options{Guard: &fake{make: func(int) *state.Snapshot { return fixed() }}, Config: &fakeConfig{}})
	for _, c := range []struct {
		method, url string
		want        int
	}{
		{http.MethodGet, public + "/", 200},
		{http.MethodHead, public + "/metrics", 200},
		{http.MethodGet, public + "/nothing", 404},
		{http.MethodGet, public + "/reload", 404},
		{http.MethodPost, public + "/reload", 404},
		{http.MethodGet, public + "/debug/pprof/", 404},
		{http.MethodGet, public + "/config", 404},
		{http.MethodPost, public + "/metrics", 405},
		{http.MethodDelete, public + "/", 405},
		{http.MethodPut, public + "/readyz", 405},
		{http.MethodGet, admin + "/reload", 405},
		{http.MethodPost, admin + "/reload", 200},
		{http.MethodPost, admin + "/config", 405},
		{http.MethodGet, admin + "/debug/pprof/", 200},
		{http.MethodGet, admin + "/debug/pprof/goroutine?debug=1", 200},
		{http.MethodGet, admin + "/debug/pprof/cmdline", 404},
		{http.MethodGet, admin + "/debug/pprof/trace?seconds=0.01", 200},
		{http.MethodGet, admin + "/metrics", 404},
	} {
		if code, _, body := do(t, c.method, c.url); code != c.want {
			t.Errorf("%s %s: %d, want %d: %.100s", c.method, c.url, code, c.want, body)
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	public, _ := start(t, Options{Guard: &fake{}})
	c, err := net.Dial("tcp", strings.TrimPrefix(public, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", 2*maxHeader)) // may be cut off
	}()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, " 431 ") {
		t.Errorf("%q %v", line, err)
	}
}

func TestPageIsSelfContained(t *testing.T) {
	public, _ := start(t, Options{Guard: &fake{make: func(int) *state.Snapshot { return fixed() }}})
	_, header, body := get(t, public+"/")
	policy := header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %s", policy)
	}
	for _, bad := range []string{"//cdn", "https://", "src=", "@import", " style=", " onclick=", styleMark, scriptMark} {
		if strings.Contains(body, bad) {
			t.Errorf("the page contains %s", bad)
		}
	}
	if n := strings.Count(body, "<script") + strings.Count(body, "<style"); n != 2 {
		t.Errorf("%d style and script elements", n)
	}
}
