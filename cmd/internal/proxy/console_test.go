package proxy

import (
	"context"
	"net"
	"testing"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// Who has no password does not learn whose would do.
func TestConsoleAsksForThePasswordFirst(t *testing.T) {
	_, address := start(t, func(o *Options) {
		o.Console = func(_ context.Context, conn net.Conn, _ Administrator) { _ = conn.Close() }
		o.Settings.Method = login.Password
		o.Settings.Secrets = login.NewBook(map[string]login.Secret{"dba": {Plain: "secret"}, "app": {Plain: "secret"}})
		o.Settings.AdminUsers = []string{"dba"}
	})
	try := func(role, password string) error {
		_, err := login.Dial(t.Context(), login.Target{
			Network: "tcp", Address: address, User: role, Database: "pgweir", Credentials: login.Credentials{Password: password},
		})
		return err
	}
	for _, role := range []string{"dba", "app", "nobody"} {
		wantCode(t, try(role, "wrong"), "28P01")
	}
	wantCode(t, try("app", "secret"), "42501")
}
