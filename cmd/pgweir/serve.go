package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/proxy"
	"github.com/pgweir/pgweir/config"
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

SIGTERM drains: it goes on serving for drain_delay, lets transactions finish and
closes what is left after shutdown_timeout.`,
		run: serve,
	}
}

// statementMemory bounds the texts of prepared statements, in bytes.
const statementMemory = 256 << 20

// serve runs the proxy until ctx ends.
func serve(ctx context.Context, e *env, args []string) int {
	f := e.flags()
	upstream := f.String("upstream", "", "the Postgres to guard, as a `URL`; default: the environment's DATABASE_URL")
	rest, code, ok := e.parse(f, args, 1)
	if !ok {
		return code
	}
	c, problems := e.configuration(rest, *upstream)
	if len(problems) > 0 {
		e.problems(problems)
		return exitUsage
	}
	if c == nil {
		return e.misuse("a FILE, --upstream URL or DATABASE_URL is needed")
	}
	log := newLogger(e.stderr, c.Log)
	for _, w := range c.Warnings() {
		log.Warn(w)
	}
	if err := serveConfig(ctx, c, log); err != nil {
		log.Error("pgweir ended", "error", err)
		return exitError
	}
	return exitOK
}

// configuration reads the file, or makes a configuration of a URL. It returns
// nil and no problems if there is neither.
func (e *env) configuration(files []string, url string) (*config.Config, []config.Problem) {
	if len(files) > 0 {
		return config.LoadEnv(files[0], e.getenv)
	}
	if url == "" {
		url = e.getenv("DATABASE_URL")
	}
	if url == "" {
		return nil, nil
	}
	return config.FromURL(url)
}

func newLogger(w io.Writer, l config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: l.Level.Slog()}
	if l.Format == config.JSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// serveConfig runs the proxy of a configuration until ctx ends.
func serveConfig(ctx context.Context, c *config.Config, log *slog.Logger) error {
	o, err := options(ctx, c, log)
	if err != nil {
		return err
	}
	if o.Listeners, err = listen(c.Listen, c.ReusePort); err != nil {
		return err
	}
	px, err := proxy.New(o)
	if err != nil {
		return err
	}
	for _, a := range px.Addrs() {
		log.Info("listening", "address", a.String())
	}
	return px.Run(ctx)
}

// options turns a configuration into a proxy's plain values.
func options(ctx context.Context, c *config.Config, log *slog.Logger) (proxy.Options, error) {
	w := c.Workloads[len(c.Workloads)-1] // "default"
	o := proxy.Options{
		MaxClients: c.MaxClientConn, MaxLogins: c.MaxLogins, LoginTimeout: c.ClientLoginTimeout.Std(),
		DrainDelay: c.DrainDelay.Std(), ShutdownTimeout: drainTime(c),
		MaxPrepared: c.MaxPreparedStatements, TextLimit: int(c.QueryTextLimit), StatementMemory: statementMemory,
		Method: login.Method(c.Auth.Type), OnlyUser: c.Auth.User,
		Upstreams: make(map[string]proxy.Upstream), Log: log,
		Workload: proxy.Workload{
			Name: w.Name, MaxWait: w.MaxWait.Std(), NoServerWait: w.NoServerWait.Std(),
			CancelAbandoned: w.OnDisconnect == config.Cancel,
		},
	}
	if !w.MaxWaiting.IsAuto() {
		o.Workload.MaxWaiting = int(w.MaxWaiting)
	}
	o.Route = func(database string) (string, string, bool) {
		i, name, ok := c.Route(database)
		if !ok {
			return "", "", false
		}
		return c.Upstreams[i].Name, name, true
	}
	var err error
	if o.Secrets, err = secrets(c.Auth); err != nil {
		return o, err
	}
	for i := range c.Upstreams {
		if o.Upstreams[c.Upstreams[i].Name], err = upstream(ctx, c, i, log); err != nil {
			return o, err
		}
	}
	return o, nil
}

// drainTime is what is left of shutdown_timeout after drain_delay.
func drainTime(c *config.Config) time.Duration {
	if c.ShutdownTimeout.IsNone() {
		return math.MaxInt64
	}
	return c.ShutdownTimeout.Std() - c.DrainDelay.Std()
}

// secrets reads who may come in.
func secrets(a config.Auth) (login.Secrets, error) {
	entries := make(map[string]login.Secret)
	switch {
	case a.User != "" && a.Type != config.Trust:
		entries[a.User] = login.Secret{Plain: a.Password.Reveal()}
	case a.File != "":
		file, err := os.Open(a.File)
		if err != nil {
			return nil, fmt.Errorf("auth_file: %w", err)
		}
		defer func() { _ = file.Close() }() // only read
		list, problems := login.ParseAuthFile(file)
		if len(problems) > 0 {
			errs := make([]error, 0, len(problems))
			for _, p := range problems {
				errs = append(errs, fmt.Errorf("%s: %s", a.File, p))
			}
			return nil, errors.Join(errs...)
		}
		entries = list
	}
	return login.NewBook(entries), nil
}

// upstream turns an upstream and its budget into plain values. What is
// automatic is asked of Postgres.
func upstream(ctx context.Context, c *config.Config, i int, log *slog.Logger) (proxy.Upstream, error) {
	u := c.Upstreams[i]
	facts := config.Facts{MaxConnections: math.MaxInt32, RoleLimit: -1}
	if u.Budget.IsAuto() {
		var err error
		if facts, err = askPostgres(ctx, u, log); err != nil {
			return proxy.Upstream{}, err
		}
	}
	b := c.Budget(i, facts)
	log.Info("budget", "upstream", u.Name, "server_connections", b.Connections, "slots", b.Slots, "reserve", b.Reserve, "sum", b.Sum)
	for _, n := range b.Notes {
		log.Warn(n, "upstream", u.Name)
	}
	return proxy.Upstream{
		Network: u.URL.Hosts[0].Network, Address: u.URL.Hosts[0].Address, Budget: b.Connections, Slots: b.Slots,
		ConnectTimeout: orForever(u.ServerConnectTimeout), ConnectParallel: u.ConnectParallel,
		ConnectRate: float64(b.ConnectRate), Lifetime: u.ServerLifetime.Std(), IdleTimeout: u.ServerIdleTimeout.Std(),
		UserTimeout: u.TCPUserTimeout.Std(), Role: u.URL.User, Password: u.URL.Password.Reveal(),
	}, nil
}

// orForever turns "none" into a time that does not come.
func orForever(d config.Duration) time.Duration {
	if d.IsNone() {
		return 24 * 365 * time.Hour
	}
	return d.Std()
}
