package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// Standby makes a streaming standby of c, whose Options must say Replicas, and waits until
// it takes read-only connections. Stop both in the end.
func (c *Cluster) Standby(ctx context.Context) (*Cluster, error) {
	s := &Cluster{Endpoint: Endpoint{Programs: c.Programs, Host: "127.0.0.1"}, options: c.options, as: c.as, primary: c}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Promote makes a standby a primary, as pg_ctl promote does, and waits until it is one.
func (c *Cluster) Promote(ctx context.Context) error {
	out, err := c.SQL(ctx, "postgres", "SELECT pg_promote(true, 60)")
	if err == nil && out != "t\n" && out != "t" {
		err = fmt.Errorf("pg_promote says %q; the server's log ends:\n%s", out, c.logTail())
	}
	return err
}

// copyPrimary makes the data directory of a standby.
func (c *Cluster) copyPrimary(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.Programs.Path("pg_basebackup"), "-h", c.primary.SocketDir, "-p", strconv.Itoa(c.primary.Port),
		"-U", Superuser, "-D", c.DataDir, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	cmd.Dir, cmd.Env = c.dir, CleanEnv("TZ=UTC", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	c.as.apply(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return nil
}
