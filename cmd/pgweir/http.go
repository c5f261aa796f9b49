package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/status"
	"github.com/pgweir/pgweir/config"
)

// serveHTTP opens the HTTP listeners. closeHTTP ends them.
func (g *guard) serveHTTP(c *config.Config) (closeHTTP func(), err error) {
	srv := status.New(status.Options{Guard: g, Config: g, Version: versionText(), LastReload: g.lastReload, Log: g.log})
	var open []net.Listener
	for _, place := range []struct {
		config.Listen
		serve func(net.Listener) error
	}{{c.HTTP, srv.ServePublic}, {c.AdminHTTP, srv.ServeAdmin}} {
		if !place.IsSet() {
			continue
		}
		ln, err := listen([]config.Listen{place.Listen}, c.ReusePort && place.Network == "tcp")
		switch {
		case errors.Is(err, syscall.EADDRINUSE) && place.Listen == c.HTTP && !written(c, "http"):
			// Nobody has asked for it: most likely there is another pgweir on this machine.
			g.log.Warn(fmt.Sprintf("http: %s is taken: no metrics, health or status page; set http to another address, or to \"none\"", place.Address))
			continue
		case err != nil:
			return nil, errors.Join(fmt.Errorf("http: %w", err), closeAll(open))
		}
		open = append(open, ln...)
		g.log.Info("http", "address", ln[0].Addr().String())
		g.work.Go(func() {
			if err := place.serve(ln[0]); err != nil {
				g.log.Error("http ended", "error", err)
			}
		})
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx) // what is not answered by then is cut off with the process
	}, nil
}

// written reports whether somebody has written a key: it is not the default.
func written(c *config.Config, key string) bool {
	return slices.ContainsFunc(c.Settings(), func(s config.Setting) bool { return s.Key == key && s.Source != "default" })
}
