package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// Clients prove by a certificate who they are, with psql: by auth_type = "cert", by rules, with
// and without a map, and beside a password.
func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{password: "right"})
	dir := hbaDir(t, map[string]string{
		"ident":     "cert /^(.*)\\.internal$ \\1\n",
		"hba":       "hostssl all app all cert map=cert\n",
		"both":      "hostssl all app all scram-sha-256 clientcert=verify-full\n",
		"authority": "hostssl all app all scram-sha-256 clientcert=verify-ca\n",
	})
	app, machine, other := clientCert(t, s.authority, "app"), clientCert(t, s.authority, "app.internal"), clientCert(t, s.authority, "other")
	foreign := clientCert(t, s.foreign, "app")
	const (
		in        = "app"
		notHis    = `certificate authentication failed for user "app"`
		needs     = "connection requires a valid client certificate"
		noRule    = `no pg_hba.conf entry for host "127.0.0.1", user "app", database "app", no encryption`
		noTrusted = "unknown ca"
	)
	for _, c := range []struct {
		auth   string
		change string            // in the log of the reload
		want   map[string]string // by the client's options
	}{
		{`auth_type = "cert"`, "auth.auth_type", map[string]string{app: in, other: notHis, machine: notHis, foreign: noTrusted, "": needs, "sslmode=disable": needs}},
		{`auth_type = "cert"` + "\n" + fmt.Sprintf("ident_file = %q", dir+"/ident"), "auth.ident_file", map[string]string{machine: in, app: notHis, other: notHis, "": needs}},
		{`auth_type = "hba"` + "\n" + fmt.Sprintf("ident_file = %q\nhba_file = %q", dir+"/ident", dir+"/hba"), "/hba", map[string]string{machine: in, app: notHis, "": needs, "sslmode=disable": noRule}},
		{`auth_type = "hba"` + "\n" + fmt.Sprintf("hba_file = %q", dir+"/both"), "/both", map[string]string{app: in, machine: notHis, app + " password=wrong": "password authentication failed", "": needs}},
		{`auth_type = "hba"` + "\n" + fmt.Sprintf("hba_file = %q", dir+"/authority"), "/authority", map[string]string{app: in, other: in, "": needs}},
	} {
		s.rewrite(t, `auth_type = "trust"`, c.auth)
		s.proc.Signal(syscall.SIGHUP)
		how := strings.ReplaceAll(c.auth, dir, "")
		s.logged(t, "msg=reload", c.change)
		for options, want := range c.want {
			if !strings.Contains(options, "sslmode") {
				options += " sslmode=require"
			}
			if !strings.Contains(options, "password") {
				options += " password=right"
			}
			out, err := s.psqlAs(t, options, "select current_user")
			if !strings.Contains(out, want) || (err == nil) != (want == in) {
				t.Errorf("%s: %s: %v: %s, want %s", how, options, err, out, want)
			}
		}
	}
}
