package proxy

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// Who was accepted with the last descriptor, so that there is none for the event loop, is told.
func TestNoDescriptorForTheLoop(t *testing.T) {
	px, _ := start(t, nil)
	ours, theirs := net.Pipe()
	go px.refuseLogin(ours, fmt.Errorf("loop: detach: %w", os.NewSyscallError("fcntl", syscall.EMFILE)))
	_ = theirs.SetDeadline(time.Now().Add(patience))
	typ, body, err := wire.ReadMessage(theirs, 1<<16)
	if err != nil || typ != wire.MsgErrorResponse {
		t.Fatalf("%q, %v", typ, err)
	}
	if e := wire.ErrorFields(body); e.Code != "53300" || e.Detail != "reason=descriptors" {
		t.Error(e)
	}
}
