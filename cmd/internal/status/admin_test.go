package status

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestReload(t *testing.T) {
	for _, c := range []struct {
		name   string
		config fakeConfig
		want   string
	}{
		{"nothing is different", fakeConfig{}, "200 read again, nothing is different"},
		{"differences", fakeConfig{changes: []control.Change{
			{Key: "workload.api.max_wait", Old: "2s", New: "500ms"},
			{Key: "listen", Old: `["127.0.0.1:6432"]`, New: `["0.0.0.0:6432"]`, Restart: true},
		}}, "200 workload.api.max_wait: 2s -> 500ms\nlisten: [\"127.0.0.1:6432\"] -> [\"0.0.0.0:6432\"] (at the next start only)"},
		{"warnings", fakeConfig{warnings: []string{"odd", "strange"}}, "200 read again, nothing is different\nwarning: odd\nwarning: strange"},
		{"problems", fakeConfig{problems: []control.Problem{
			{Text: "pgweir.toml:3:8: unknown key max_wiat", Hint: "did you mean max_wait?", Where: "3 | max_wiat = 1\n  | ^^^^^^^^\n"},
			{Text: "pgweir.toml:9:1: slots exceed the budget"},
		}}, "422 nothing has changed: 2 problems\n\npgweir.toml:3:8: unknown key max_wiat\n3 | max_wiat = 1\n  | ^^^^^^^^\nhint: did you mean max_wait?\n\npgweir.toml:9:1: slots exceed the budget"},
		{"one problem", fakeConfig{problems: []control.Problem{{Text: "x"}}}, "422 nothing has changed: 1 problem\n\nx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, admin := start(t, Options{Guard: &fake{}, Config: &c.config})
			if code, _, body := do(t, http.MethodPost, admin+"/reload"); statusLine(code, body) != c.want {
				t.Errorf("%q\nwant %q", statusLine(code, body), c.want)
			}
		})
	}
}

func TestConfigAsText(t *testing.T) {
	_, admin := start(t, Options{Guard: &fake{}, Config: &fakeConfig{settings: []control.Setting{
		{Key: "max_client_conn", Value: "500", Default: "10000", Source: "pgweir.toml:4", Reload: true},
		{Key: "listen", Value: `["127.0.0.1:6432"]`, Default: `["127.0.0.1:6432"]`, Source: "default"},
	}}})
	want := `200 key              value               default             source         applied by reload
max_client_conn  500                 10000               pgweir.toml:4  yes
listen           ["127.0.0.1:6432"]  ["127.0.0.1:6432"]  default        no`
	if code, _, body := get(t, admin+"/config"); statusLine(code, body) != want {
		t.Errorf("%s\nwant\n%s", statusLine(code, body), want)
	}
}

// A browser on the administrator's machine must not be a way in.
func TestAdminRefusesForeignPages(t *testing.T) {
	_, admin := start(t, Options{Guard: &fake{}, Config: &fakeConfig{}})
	for _, c := range []struct {
		name   string
		header []string
		want   int
	}{
		{"curl", nil, 200},
		{"localhost", []string{"Host", "LOCALHOST:6434"}, 200},
		{"address", []string{"Host", "[::1]:6434"}, 200},
		{"a name that points here", []string{"Host", "evil.example:6434"}, 403},
		{"a form on another site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin", []string{"Origin", "https://evil.example"}, 403},
		{"its own origin", []string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, _, body := do(t, http.MethodPost, admin+"/reload", c.header...); code != c.want {
				t.Errorf("%d %s, want %d", code, body, c.want)
			}
		})
	}
}

func TestAdminOnAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Guard: &fake{}, Config: &fakeConfig{}, Log: newTextLogger(io.Discard)})
	ended := make(chan error, 1)
	go func() { ended <- s.ServeAdmin(ln) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pgweir/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	tr.CloseIdleConnections()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServeSaysWhyItFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	s := New(Options{Guard: &fake{}, Log: newTextLogger(io.Discard)})
	if err := s.ServePublic(ln); err == nil {
		t.Error("no error from a listener that is closed")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenConnectionsAreBounded(t *testing.T) {
	base, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := limit(base, 2)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() {
		t.Helper()
		c, err := net.Dial("tcp", base.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	dial()
	dial()
	first, second := <-accepted, <-accepted
	dial()
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	default: // Accept waits for a place: there is none to be had
	}
	if n := len(ln.(*limited).places); n != 2 {
		t.Errorf("%d places taken", n)
	}
	_ = first.Close()
	_ = first.Close() // twice gives back one place
	var third net.Conn
	select {
	case third = <-accepted:
	case <-time.After(10 * time.Second):
		t.Fatal("the place of a closed connection did not come free")
	}
	if n := len(ln.(*limited).places); n != 2 {
		t.Errorf("%d places taken", n)
	}
	_ = ln.Close() // ends the Accept that waits for a place
	for range accepted {
		t.Error("accepted after Close")
	}
	_ = second.Close()
	_ = third.Close()
}
