package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// A BEGIN is never refused, also in one piece with what is: whoever goes on without a look
// at the error finds himself in a failed transaction.
func TestRefusedBehindBegin(t *testing.T) {
	statement := func(b []byte, text string) []byte {
		b = wiretest.AppendBind(wiretest.AppendParse(b, "", text), wiretest.Bind{})
		return wiretest.AppendExecute(b, "", 0)
	}
	batch := statement(statement(nil, "begin"), "insert 1")
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"batch": {wire.AppendEmpty(batch, wire.MsgSync), `<- ParseComplete
<- BindComplete
<- CommandComplete BEGIN
<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery E
<- CommandComplete ROLLBACK
<- ReadyForQuery I
`},
		"string": {wire.AppendQuery(nil, "begin read only; insert 1; commit"), `<- CommandComplete BEGIN
<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery E
<- CommandComplete ROLLBACK
<- ReadyForQuery I
`},
		"string that does something before": {wire.AppendQuery(nil, "insert 1; begin; insert 2"), `<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery I
<- NoticeResponse WARNING 25P01 "there is no transaction in progress"
<- CommandComplete COMMIT
<- ReadyForQuery I
`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.client.Refuse(&wire.Error{Severity: "ERROR", Code: "53300", Message: "refused"})
			r.send(wire.AppendQuery(c.in, "commit"))
			if diff := cmp.Diff(c.want, wiretest.DumpBackend(r.out)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if r.grants > 0 {
				t.Error("a server was asked for")
			}
		})
	}
}
