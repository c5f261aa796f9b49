package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/signal"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/console"
	"github.com/pgweir/pgweir/cmd/internal/proxy"
	"github.com/pgweir/pgweir/cmd/internal/sibling"
	"github.com/pgweir/pgweir/cmd/internal/status"
	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/wire"
)

func serveCommand() command {
	return command{
		name:    "serve",
		args:    "[FILE]",
		summary: "stand between applications and Postgres",
		detail: `
With a FILE (TOML; see pgweir check --defaults) it does what the file says. Without one
it takes the Postgres named by --upstream or DATABASE_URL, listens on 127.0.0.1:6432
and lets in the role of that URL with its password.

Signals:
  HUP    reads the file again; a wrong one changes nothing
  TERM   goes on serving for drain_delay, lets transactions finish and closes what is
         left after shutdown_timeout
  INT    the same without drain_delay; a second one closes everything at once
  QUIT   closes everything at once
  USR1   PAUSE, USR2 RESUME, as at the console (psql -d pgweir)`,
		signals: true,
		run:     serve,
	}
}

// statementMemory bounds the texts of prepared statements, in bytes.
const statementMemory = 256 << 20

// serve runs the proxy until ctx or a signal ends it.
func serve(ctx context.Context, e *env, args []string) int {
	f := e.flags()
	url := f.String("upstream", "", "the Postgres to guard, as a `URL`; default: the environment's DATABASE_URL")
	rest, code, ok := e.parse(f, args, 1)
	if !ok {
		return code
	}
	src := e.source(rest, *url)
	if src == nil {
		return e.misuse("a FILE, --upstream URL or DATABASE_URL is needed")
	}
	c, text, problems := src.read(nil, "")
	if len(problems) > 0 {
		e.problems(problems)
		return exitUsage
	}
	level := &slog.LevelVar{}
	level.Set(c.Log.Level.Slog())
	log := newLogger(e.stderr, c.Log.Format, level)
	odd := warnings(c, time.Now())
	for _, w := range odd {
		log.Warn(w)
	}
	g := &guard{
		log: log, level: level, source: src, text: text, config: c,
		facts: make(map[string]config.Facts), asked: make(map[string]string), reloaded: time.Now(), loadedOK: true, odd: odd,
	}
	if err := g.run(ctx); err != nil {
		log.Error("pgweir ended", "error", err)
		return exitError
	}
	return exitOK
}

// source is where the configuration comes from: a file, or a URL that takes its place.
type source struct {
	file, url string
	getenv    func(string) string
}

// source finds out which it is; nil if there is neither a file nor a URL.
func (e *env) source(files []string, url string) *source {
	if len(files) > 0 {
		return &source{file: files[0], getenv: e.getenv}
	}
	if url = cmp.Or(url, e.getenv("DATABASE_URL")); url != "" {
		return &source{url: url}
	}
	return nil
}

// read reads the configuration, with overrides: from the text of an earlier read of the
// file, or if that is empty from the file. It returns the text.
func (s *source) read(set map[string]string, earlier string) (c *config.Config, text string, problems []config.Problem) {
	o := config.Options{Getenv: s.getenv, Set: set}
	if s.file == "" {
		c, problems = o.FromURL(s.url)
		return c, "", problems
	}
	if text = earlier; text == "" {
		if text, problems = config.Read(s.file); len(problems) > 0 {
			return nil, "", problems
		}
	}
	c, problems = o.LoadText(s.file, text)
	return c, text, problems
}

func newLogger(w io.Writer, format config.LogFormat, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == config.JSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// firstAsk is how long the start waits for a Postgres that must be asked for its limits.
const firstAsk = 2 * time.Second

// run serves until ctx or a signal ends it.
func (g *guard) run(ctx context.Context) error {
	end, stop := context.WithCancel(context.Background())
	defer g.work.Wait()
	defer stop()
	g.end = end
	caught := catchSignals()
	defer signal.Stop(caught)
	c := g.config
	g.firstFacts(ctx)
	s, err := settings(c, g.facts)
	if err != nil {
		return err
	}
	logBudgets(g.log, c, g.facts)
	o := proxy.Options{
		MaxLogins: c.MaxLogins, TextLimit: int(c.QueryTextLimit), StatementMemory: statementMemory,
		Settings: s, Log: g.log, NoRing: !c.IOUring, Console: g.serveConsole,
	}
	group, err := g.join(c, &o)
	if err != nil {
		return err
	}
	if group != nil {
		defer func() { _ = group.Close() }() // the process ends with it
	}
	web, err := g.listenHTTP(c)
	if err != nil {
		return err
	}
	if o.Listeners, err = listen(c.Listen, c.ReusePort); err != nil {
		return errors.Join(err, web.close())
	}
	if g.Proxy, err = proxy.New(o); err != nil {
		return errors.Join(err, closeAll(o.Listeners), web.close())
	}
	g.console = console.New(g, console.Options{Version: versionText(), Log: g.log})
	g.work.Go(func() { g.console.Run(end) })
	defer g.serveHTTP(web)()
	for _, a := range g.Addrs() {
		g.log.Info("listening", "address", a.String())
	}
	g.mu.Lock()
	g.askUpstreams()
	g.mu.Unlock()
	g.work.Go(g.keepAsking)
	g.work.Go(func() { g.signals(end, caught) })
	g.notify(end)
	return g.Run(ctx)
}

// notify tells systemd, where there is one, how it goes.
func (g *guard) notify(end context.Context) {
	_ = status.Notify("READY=1") // without systemd there is nobody to tell
	g.work.Go(func() {
		status.Watchdog(end, func(ctx context.Context) error {
			_, err := g.Health(ctx)
			return err
		})
	})
}

// firstFacts asks the upstreams whose budget is "auto", for a short time: a Postgres that
// is away is asked again later.
func (g *guard) firstFacts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstAsk)
	defer cancel()
	for i := range g.config.Upstreams {
		u := &g.config.Upstreams[i]
		if !u.Budget.IsAuto() {
			continue
		}
		facts, err := g.ask(ctx, u)
		if err != nil {
			g.log.Warn("Postgres can't be asked for its limits yet; starting without it", "upstream", u.Name, "error", err)
			continue
		}
		g.facts[u.Name], g.asked[u.Name] = facts, u.URL.Reveal()
	}
}

// join makes this process known to the others on its port.
func (g *guard) join(c *config.Config, o *proxy.Options) (*sibling.Group, error) {
	if !c.ReusePort {
		return nil, nil
	}
	group, err := sibling.Join(sharedName(c.Listen), func(ctx context.Context, r *wire.CancelRequest) { g.Cancel(ctx, r) })
	if err != nil {
		return nil, fmt.Errorf("so_reuseport: %w", err)
	}
	o.Process, o.Forward = group.Process(), group.Forward
	g.log.Info("sharing the port", "process", group.Process())
	return group, nil
}

func closeAll(list []net.Listener) error {
	var errs []error
	for _, ln := range list {
		errs = append(errs, ln.Close())
	}
	return errors.Join(errs...)
}

// serveConsole serves an administrator.
func (g *guard) serveConsole(ctx context.Context, conn net.Conn, who proxy.Administrator) {
	err := g.console.Serve(ctx, conn, console.Who{
		User: who.Role, Database: who.Database, Admin: who.Admin, Addr: who.Addr, Key: who.Key, Params: who.Params, Cancel: who.Cancel,
	})
	if err != nil {
		g.log.Debug("console ended", "client", who.Addr, "error", err)
	}
}
