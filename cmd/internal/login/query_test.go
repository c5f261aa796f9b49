package login

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
)

var (
	complete = string(wire.AppendCommandComplete(nil, "SELECT 1"))
	failure  = string(wire.AppendError(nil, &wire.Error{Severity: "ERROR", Code: "42501", Message: "no"}))
)

// row is a DataRow with a body.
func row(body string) string { return string(wire.AppendMessage(nil, wire.MsgDataRow, []byte(body))) }

// columnsOf is a DataRow with its description.
func columnsOf(values ...string) string {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
	}
	return string(wire.AppendMessage(nil, wire.MsgRowDescription, []byte{0, 0})) + row(string(body))
}

func TestQuery(t *testing.T) {
	for name, tc := range map[string]struct {
		says string
		want []string
		err  string // a part of it
	}{
		"a row":             {columnsOf("t", "on", "") + complete + ready, []string{"t", "on", ""}, ""},
		"null":              {row("\x00\x02\xff\xff\xff\xff\x00\x00\x00\x01x") + complete + ready, []string{"", "x"}, ""},
		"with noise":        {notice + columnsOf("1") + notice + complete + version + notice + ready, []string{"1"}, ""},
		"no row":            {complete + ready, nil, "0 rows"},
		"two rows":          {columnsOf("1") + columnsOf("2") + complete + ready, nil, "2 rows"},
		"an error":          {failure + ready, nil, "ERROR 42501: no"},
		"end":               {columnsOf("1"), nil, "server closed the connection"},
		"end with a reason": {string(wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P01", Message: "bye"})), nil, "57P01"},
		"in a transaction":  {columnsOf("1") + complete + string(wire.AppendReadyForQuery(nil, wire.InTransaction)), nil, "not idle"},
		"a strange message": {string(wire.AppendMessage(nil, wire.MsgCopyInResponse, []byte{0, 0, 0})), nil, "message of type 'G'"},
		"damaged rows":      {row("\x00\x01\x00\x00\x00\x09x") + ready, nil, "damaged row"},
		"too short rows":    {row("\x00\x01\x00\x00") + ready, nil, "damaged row"},
		"too long rows":     {row("\x00\x00\x00") + ready, nil, "damaged row"},
		"a huge message":    {"D\x7f\xff\xff\xff", nil, "claims"},
		"no end":            {strings.Repeat(notice, maxMessages), nil, "no end of messages"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := pipe(t)
			const next = "what comes next"
			done := background(func() error {
				if _, _, err := wire.ReadMessage(peer, 100, wire.MsgQuery); err != nil {
					return err
				}
				if _, err := peer.Write([]byte(tc.says)); err != nil {
					return err
				}
				if tc.err == "" {
					_, err := peer.Write([]byte(next))
					return err
				}
				return peer.Close()
			})
			s := &Server{Conn: ours}
			got, err := s.Query(deadline(t), "select 1")
			if d := cmp.Diff(tc.want, got); d != "" || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q, %v", got, err)
			}
			if tc.err == "" {
				b := make([]byte, len(next))
				if _, err := io.ReadFull(ours, b); err != nil || string(b) != next {
					t.Errorf("%q comes next, %v", b, err)
				}
			}
			_ = ours.Close()
			if err := done(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
			if strings.Contains(tc.says, version) && len(s.Status) != 1 {
				t.Errorf("status %v", s.Status)
			}
		})
	}
}

func TestEndSaysGoodbyeAndWaits(t *testing.T) {
	ours, peer := pipe(t)
	gone := false
	done := background(func() error {
		typ, _, err := wire.ReadMessage(peer, 0)
		if err == nil && typ != wire.MsgTerminate {
			err = errors.New("no goodbye")
		}
		gone = true
		return errors.Join(err, peer.Close())
	})
	(&Server{Conn: ours}).End(deadline(t))
	if !gone {
		t.Error("the server was not waited for")
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("not closed: %v", err)
	}
}
