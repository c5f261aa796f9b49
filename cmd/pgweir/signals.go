package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/status"
)

// catchSignals keeps signals from their usual effect, from before the time when somebody
// can see that the process is there.
func catchSignals() chan os.Signal {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	return ch
}

// signals does what the process is told by signals, until end.
func (g *guard) signals(end context.Context, ch <-chan os.Signal) {
	for interrupted := false; ; {
		select {
		case <-end.Done():
			return
		case s := <-ch:
			g.log.Info("signal", "signal", s.String())
			switch s {
			case syscall.SIGHUP:
				g.Reload(end)
			case syscall.SIGTERM:
				g.leave(control.Drain)
			case syscall.SIGINT:
				if interrupted {
					g.leave(control.Now)
				} else {
					g.leave(control.WaitForServers)
				}
				interrupted = true
			case syscall.SIGQUIT:
				g.leave(control.Now)
			case syscall.SIGUSR1:
				g.work.Go(func() { _, _ = g.Pause(end, "") }) // it is paused at once; to wait for the rest is nobody's business
			case syscall.SIGUSR2:
				_, _ = g.Resume(end, "") // it can only fail because the process ends
			}
		}
	}
}

// leave starts the end of the process.
func (g *guard) leave(how control.Shutdown) {
	_ = status.Notify("STOPPING=1") // without systemd there is nobody to tell
	g.Shutdown(how)
}
