package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom the server runs as. The zero value means: as ourselves.
type account struct {
	other    bool
	uid, gid uint32
}

// serverAccount is ourselves, unless we are root.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		return account{other: true, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

// own gives path to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// apply makes a command run as the account. Supplementary groups are dropped: root's must
// not leak, and the server needs none.
func (a account) apply(attr *syscall.SysProcAttr) {
	if a.other {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: []uint32{}}
	}
}
