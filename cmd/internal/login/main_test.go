package login

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// postgres is the server that the tests of this package share, started by the first
// that needs it and stopped by TestMain.
var postgres sharedCluster

type sharedCluster struct {
	once    sync.Once
	cluster *pgtest.Cluster
	err     error
}

// Roles of the shared server, each let in by the method in its name, with the
// password "right". md5 and scram say how the password is stored.
const setup = `
create role trusty login;
set password_encryption = 'md5';
create role md5_md5 login password 'right';
create role clear_md5 login password 'right';
set password_encryption = 'scram-sha-256';
create role scram_scram login password 'right';
create role md5_scram login password 'right';
create role clear_scram login password 'right';
create role narrow login connection limit 0;
create database "other db";
`

func hbaLines() []string {
	lines := []string{"local all all trust"}
	for user, method := range map[string]string{
		"postgres": "trust", "trusty": "trust", "narrow": "trust",
		"md5_md5": "md5", "md5_scram": "md5", "clear_md5": "password", "clear_scram": "password",
		"scram_scram": "scram-sha-256",
	} {
		lines = append(lines, fmt.Sprintf("host all %s 127.0.0.1/32 %s", user, method))
	}
	return append(lines, "host all all all reject")
}

func (s *sharedCluster) get(t *testing.T) *pgtest.Cluster {
	t.Helper()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
		defer cancel()
		s.cluster, s.err = pgtest.Start(ctx, pgtest.Options{HBA: hbaLines()})
		if s.err == nil {
			_, s.err = s.cluster.SQL(ctx, "postgres", setup)
		}
	})
	if errors.Is(s.err, pgtest.ErrNoPostgres) {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

func TestMain(m *testing.M) {
	code := m.Run()
	if postgres.cluster != nil {
		if err := postgres.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
