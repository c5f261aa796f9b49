package pgtest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// confFile holds the cluster's settings; initdb's own postgresql.conf stays as it is and
// includes it.
const confFile = "pgtest.conf"

// writeConfig writes all that depends on this cluster. It is called before each start.
func (c *Cluster) writeConfig() error {
	main := filepath.Join(c.DataDir, "postgresql.conf")
	include := []byte("\ninclude '" + confFile + "'\n")
	b, err := os.ReadFile(main)
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(b, include) {
		if err := os.WriteFile(main, append(b, include...), 0o600); err != nil {
			return err
		}
	}
	if err := c.writeOwned(confFile, c.settings()); err != nil {
		return err
	}
	return c.writeOwned("pg_hba.conf", c.hba())
}

// writeOwned writes a file of the data directory and gives it to the server's account.
func (c *Cluster) writeOwned(name string, content []byte) error {
	path := filepath.Join(c.DataDir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return c.as.own(path)
}

// settings is the text of confFile: fast rather than durable, then what the caller wants.
func (c *Cluster) settings() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "listen_addresses = '127.0.0.1'\nport = %d\n", c.Port)
	fmt.Fprintf(&b, "unix_socket_directories = '%s'\nunix_socket_permissions = 0777\n", c.inside(c.SocketDir))
	b.WriteString(`fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = '2GB'
checkpoint_timeout = '1h'
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u@%d/%a '
password_encryption = 'scram-sha-256'
`)
	if c.options.Replicas {
		b.WriteString("wal_level = replica\nmax_wal_senders = 4\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.options.Settings)) {
		fmt.Fprintf(&b, "%s = %s\n", name, c.options.Settings[name])
	}
	return b.Bytes()
}

// hba is the text of pg_hba.conf.
func (c *Cluster) hba() []byte {
	lines := c.options.HBA
	if lines == nil {
		auth := c.options.Auth
		if auth == "" {
			auth = "trust"
		}
		lines = []string{"local all all trust", "host all all 127.0.0.1/32 " + auth}
	}
	var b bytes.Buffer
	if c.options.Replicas {
		fmt.Fprintln(&b, "local replication all trust")
	}
	for _, line := range lines {
		fmt.Fprintln(&b, line)
	}
	return b.Bytes()
}
