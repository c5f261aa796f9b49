package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// Who came in without a password is not sent to look whether Postgres runs.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{
		{errors.New("connection refused"), "retry=yes; is Postgres running"},
		{fmt.Errorf("SCRAM: %w", login.ErrNoCredentials), "retry=no; the client came in without a password"},
	} {
		e := unreachable(c.err)
		if e.Code != "57P03" || !strings.HasPrefix(e.Hint, c.hint) || !strings.Contains(e.Message, c.err.Error()) {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
}
