package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// Who is who in the temporary cluster.
const (
	appRole    = "app"    // clients and pgweir's servers
	directRole = "direct" // whoever connects past pgweir, so that the two can be told apart
	password   = "demo"
	database   = "shop"
)

// stage is what the demonstration plays on.
type stage struct {
	program string
	out     *screen
	broken  context.CancelCauseFunc // for a pgweir that ends by itself

	cluster *pgtest.Cluster
	watch   *watch
	admin   *pgx.Conn // superuser in the database, past pgweir; the watch uses it
	front   *pooler
	dir     string // of pgweir's files
}

// start starts PostgreSQL. What it has started before an error is for end.
func (st *stage) start(ctx context.Context) (err error) {
	st.out.say("Starting a temporary PostgreSQL ...")
	if st.cluster, err = pgtest.Start(ctx, pgtest.Options{Auth: "scram-sha-256"}); err != nil {
		return err
	}
	if st.admin, err = fill(ctx, st.cluster); err != nil {
		return fmt.Errorf("setting up the database: %w", err)
	}
	st.watch = watchServers(ctx, st.admin)
	st.dir, err = os.MkdirTemp("", "pgweir-demo-")
	return err
}

// guard puts a pgweir of a policy in front of PostgreSQL, in the place of the one before.
func (st *stage) guard(ctx context.Context, p policy) error {
	if st.front != nil {
		if err := st.front.end(); err != nil {
			return err
		}
	}
	front, err := startPooler(ctx, st.program, st.dir, st.cluster, p)
	if err != nil {
		return err
	}
	st.front = front
	go func() {
		<-front.done
		if !front.ending.Load() {
			st.broken(front.death())
		}
	}()
	return nil
}

// directURL goes past pgweir.
func (st *stage) directURL() string {
	return st.cluster.URL(pgtest.Login{User: directRole, Password: password, Database: database})
}

// fill makes roles, database and table, and leaves a connection to it.
func fill(ctx context.Context, c *pgtest.Cluster) (*pgx.Conn, error) {
	first, err := adminConn(ctx, c, "postgres")
	if err != nil {
		return nil, err
	}
	defer func() { _ = first.Close(context.WithoutCancel(ctx)) }() // it has done its work
	if err := execute(ctx, first,
		"create role "+appRole+" login password '"+password+"'",
		"create role "+directRole+" login password '"+password+"' in role "+appRole,
		"create database "+database+" owner "+appRole,
	); err != nil {
		return nil, err
	}
	conn, err := adminConn(ctx, c, database)
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, conn,
		"create sequence "+counter,
		"grant usage, select on sequence "+counter+" to "+appRole,
	); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// adminConn connects as superuser over the Unix socket.
func adminConn(ctx context.Context, c *pgtest.Cluster, db string) (*pgx.Conn, error) {
	return dial(ctx, c.SocketEndpoint().URL(pgtest.Login{User: pgtest.Superuser, Database: db}), "demo-admin")
}

// execute runs statements up to the first that fails.
func execute(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, one := range statements {
		if _, err := conn.Exec(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
	}
	return nil
}

// end ends what was started, the last one first, and removes the files.
func (st *stage) end() error {
	var errs []error
	if st.front != nil {
		errs = append(errs, st.front.end())
	}
	if st.watch != nil {
		errs = append(errs, st.watch.stop())
	}
	if st.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), connectBound)
		_ = st.admin.Close(ctx) // the server is about to end anyway
		cancel()
	}
	if st.cluster != nil {
		errs = append(errs, st.cluster.Stop())
	}
	if st.dir != "" {
		errs = append(errs, os.RemoveAll(st.dir))
	}
	return errors.Join(errs...)
}

// writeConfig writes pgweir's configuration and its list of users.
func writeConfig(p *pooler, c *pgtest.Cluster) error {
	users := filepath.Join(filepath.Dir(p.configFile), "userlist.txt")
	if err := os.WriteFile(users, []byte(`"`+appRole+`" "`+password+`"`+"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(p.configFile, []byte(configText(p, users, c)), 0o600)
}

// hasSetting reports whether this version's file has a key.
func hasSetting(table, name string) bool {
	return slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Table == table && k.Name == name })
}

// configText is the text of the configuration.
func configText(p *pooler, users string, c *pgtest.Cluster) string {
	http, console := p.http, ""
	if http == "" {
		http = "none"
	}
	if p.console {
		console = fmt.Sprintf("[console]\nadmin_users = [%q]  # psql -d pgweir\n\n", appRole)
	}
	return fmt.Sprintf(`# Written by pgweir demo.
listen           = [%q]
http             = %q
drain_delay      = "0s"
shutdown_timeout = "3s"

[auth]
auth_type = "scram-sha-256"
auth_file = %q

%s[upstream.main]
url     = %q
budget  = %d  # server connections
reserve = %d  # of these kept for control; the others are slots
slots   = %d  # transactions at once

[database.%s]
upstream = "main"

# %s: %s.
[[workload]]
name          = "default"
%s`, p.Addr(), http, users, console, c.URL(pgtest.Login{User: appRole, Password: password, Database: database}),
		budget, budget-slots, slots, database, p.policy.name, p.policy.about, p.policy.lines)
}
