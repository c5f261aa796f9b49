package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// Who is who in the temporary cluster.
const (
	appRole    = "app"    // clients and pgweir's servers
	directRole = "direct" // whoever connects past pgweir, so that the two can be told apart
	password   = "demo"
	database   = "shop"
	balance    = 1000 // of every account at the start
)

// stage is what the demonstration plays on.
type stage struct {
	cluster *pgtest.Cluster
	admin   *pgx.Conn // superuser in the database, past pgweir
	front   *pooler
	dir     string // of pgweir's files
}

// start starts everything. What it has started before an error is for end. broken ends the
// play when pgweir ends by itself.
func (st *stage) start(ctx context.Context, broken context.CancelCauseFunc, program string, out *screen) (err error) {
	out.say("Starting a temporary PostgreSQL ...")
	if st.cluster, err = pgtest.Start(ctx, pgtest.Options{Auth: "scram-sha-256"}); err != nil {
		return err
	}
	if st.admin, err = fill(ctx, st.cluster); err != nil {
		return fmt.Errorf("setting up the database: %w", err)
	}
	out.say("Starting pgweir in front of it: %d server connections, %d transactions at once, %d clients may wait ...",
		budget, slots, waiting)
	if st.dir, err = os.MkdirTemp("", "pgweir-demo-"); err != nil {
		return err
	}
	front, err := startPooler(ctx, program, st.dir, st.cluster)
	if err != nil {
		return err
	}
	st.front = front
	go func() {
		<-front.done
		broken(front.death())
	}()
	out.say("\nThrough pgweir:\n  DATABASE_URL=%s\nDirect, past pgweir:\n  DATABASE_URL=%s\n", front.url(), st.directURL())
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
		"create table account (id int primary key, balance int not null)",
		"alter table account owner to "+appRole,
		fmt.Sprintf("insert into account select id, %d from generate_series(0, %d) id", balance, accounts-1),
		"analyze account",
	); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// adminConn connects as superuser over the Unix socket.
func adminConn(ctx context.Context, c *pgtest.Cluster, db string) (*pgx.Conn, error) {
	return connect(ctx, c.SocketEndpoint().URL(pgtest.Login{User: pgtest.Superuser, Database: db}), "demo-admin")
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

// audit counts the money after all phases.
func (st *stage) audit(ctx context.Context, results []*result) error {
	var sum int64
	if err := st.admin.QueryRow(ctx, "select sum(balance)::bigint from account").Scan(&sum); err != nil {
		return fmt.Errorf("auditing the accounts: %w", err)
	}
	for _, r := range results {
		r.balanced = sum == accounts*balance
	}
	return nil
}

// end ends what was started, the last one first, and removes the files.
func (st *stage) end() error {
	var errs []error
	if st.front != nil {
		errs = append(errs, st.front.end())
	}
	if st.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// configText is the text of the configuration.
func configText(p *pooler, users string, c *pgtest.Cluster) string {
	return fmt.Sprintf(`# Written by pgweir demo.
listen           = [%q]
http             = "none"
drain_delay      = "0s"
shutdown_timeout = "3s"

[auth]
auth_type = "scram-sha-256"
auth_file = %q

[upstream.main]
url     = %q
budget  = %d  # server connections
reserve = %d  # of these kept for control; the others are slots
slots   = %d  # transactions at once

[database.%s]
upstream = "main"

[[workload]]
name        = "default"
max_wait    = %q  # longest wait for a slot
max_waiting = %d  # who comes when so many wait is refused at once
`, p.Addr(), users, c.URL(pgtest.Login{User: appRole, Password: password, Database: database}),
		budget, budget-slots, slots, database, maxWait, waiting)
}
