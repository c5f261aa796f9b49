package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config"
)

// The default of http may be taken, by another pgweir most likely: that is no reason not to
// start. An address that somebody has written has to be free.
func TestHTTPAddressIsTaken(t *testing.T) {
	taken := func(address string) string {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s is taken already: %v", address, err) // which will do
			return address
		}
		t.Cleanup(func() { _ = ln.Close() })
		return ln.Addr().String()
	}
	const url = "postgres://app@127.0.0.1:1/app?sslmode=disable"
	byURL, problems := config.Options{}.FromURL(url)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	taken(byURL.HTTP.Address)

	file := filepath.Join(t.TempDir(), "pgweir.toml")
	text := fmt.Sprintf("http = %q\n[auth]\nauth_type = \"trust\"\n[upstream.main]\nurl = %q\nbudget = 5\n[database.\"*\"]\n", taken("127.0.0.1:0"), url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	byFile, problems := config.Options{}.Load(file)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, c := range []struct {
		name    string
		config  *config.Config
		refused bool
	}{{"default", byURL, false}, {"written", byFile, true}} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			g := &guard{log: slog.New(slog.NewTextHandler(&log, nil))}
			web, err := g.listenHTTP(c.config)
			if err == nil {
				err = web.close()
			}
			switch {
			case c.refused:
				if err == nil || !strings.Contains(err.Error(), "http: listen on "+c.config.HTTP.Address) {
					t.Errorf("%v, and the log %q", err, log.String())
				}
			case err != nil || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), c.config.HTTP.Address+" is taken"):
				t.Errorf("%v, and the log %q", err, log.String())
			}
		})
	}
}
