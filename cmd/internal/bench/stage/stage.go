package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// Names that every stage has.
const (
	Role     = "app"   // the role of clients that need no other
	Database = "bench" // the database of clients that need no other
	// Counter is a sequence in each database, for all roles.
	Counter = "executed"
	// Control is the role of pgweir's own queries.
	Control = "control"
	// Outsider is the role of connections past the front, so that the two can be told apart.
	Outsider = "outsider"
)

// connectBound is for a connection and a goodbye; nothing comes near it.
const connectBound = 10 * time.Second

// Options say what a stage has.
type Options struct {
	// Program is a pgweir executable, run as `Program serve FILE`.
	Program string
	// PeersRoot is a directory with a Debian tree that holds the peers, which are run there
	// by chroot; empty: the programs in PATH.
	PeersRoot string
	Roles     []string          // besides Role
	Databases []string          // besides Database
	SQL       []string          // run by the superuser in each database
	Postgres  map[string]string // settings of PostgreSQL
	Replicas  bool              // it may have standbys
}

// Stage is a temporary PostgreSQL and what is in front of it. Its methods are not safe for
// concurrent use.
type Stage struct {
	Cluster *pgtest.Cluster
	options Options
	roles   []string
	dir     string // of the fronts' files
	front   *Front
}

// Open starts PostgreSQL and makes roles and databases. The error wraps
// [pgtest.ErrNoPostgres] when none is installed. Call Close in the end.
func Open(ctx context.Context, o Options) (*Stage, error) {
	s := &Stage{options: o, roles: append([]string{Role}, o.Roles...)}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stage) open(ctx context.Context) (err error) {
	postgres := map[string]string{"max_connections": "400"}
	for name, value := range s.options.Postgres {
		postgres[name] = value
	}
	s.Cluster, err = pgtest.Start(ctx, pgtest.Options{Settings: postgres, Replicas: s.options.Replicas, HBA: []string{
		// Nobody but us and the server's account comes to its socket. Over TCP is everybody who
		// has an account here, so nobody there is a superuser, who could run programs.
		"local all all trust",
		"host all " + pgtest.Superuser + "," + Outsider + " all reject",
		"host all all 127.0.0.1/32 trust",
	}})
	if err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return fmt.Errorf("setting up the database: %w", err)
	}
	s.dir, err = os.MkdirTemp("", "pgweir-bench-")
	return err
}

// fill makes roles and databases.
func (s *Stage) fill(ctx context.Context) error {
	var first []string
	for _, role := range s.roles {
		first = append(first, "create role "+role+" login")
	}
	first = append(first,
		"create role "+Control+" login in role pg_monitor",
		"create role "+Outsider+" login superuser", // it may see, and end, what others began
	)
	databases := append([]string{Database}, s.options.Databases...)
	for _, db := range databases {
		first = append(first, "create database "+db)
	}
	if err := s.Execute(ctx, "postgres", first...); err != nil {
		return err
	}
	for _, db := range databases {
		own := append([]string{
			"grant all on schema public to " + strings.Join(s.roles, ", "),
			"create sequence " + Counter,
			"grant usage, select on sequence " + Counter + " to public",
		}, s.options.SQL...)
		if err := s.Execute(ctx, db, own...); err != nil {
			return err
		}
	}
	return nil
}

// Execute runs statements as the superuser, past the front, up to the first that fails.
func (s *Stage) Execute(ctx context.Context, database string, statements ...string) error {
	conn, err := s.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it has done its work
	for _, one := range statements {
		if _, err := conn.Exec(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
	}
	return nil
}

// Connect connects past the front, as a superuser who is no client of it.
func (s *Stage) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	user := Outsider
	if database == "postgres" {
		user = pgtest.Superuser // the role may not be there yet
	}
	config, err := pgx.ParseConfig(s.Cluster.SocketEndpoint().URL(pgtest.Login{User: user, Database: database}))
	if err != nil {
		return nil, err
	}
	// What the caller's environment says in PG* variables is for other databases.
	config.RuntimeParams, config.ValidateConnect = map[string]string{"application_name": "pgweir-bench"}, nil
	config.ConnectTimeout = connectBound
	return pgx.ConnectConfig(ctx, config)
}

// DirectURL is where clients of a role connect past the front. The superuser does so over the
// Unix socket, the others over TCP.
func (s *Stage) DirectURL(role, database string) string {
	if role == Outsider {
		return s.Cluster.SocketEndpoint().DSN(role, database)
	}
	return s.Cluster.DSN(role, database)
}

// Close ends the front and PostgreSQL and removes their files. It may be called again.
func (s *Stage) Close() error {
	var errs []error
	if s.front != nil {
		errs = append(errs, s.front.End())
	}
	if s.Cluster != nil {
		errs = append(errs, s.Cluster.Stop())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
