package pgtest

import (
	"os"
	"syscall"

	"github.com/pgweir/pgweir/integration/child"
)

// account is whom the server runs as. The zero value means: as ourselves.
type account struct{ as *syscall.Credential }

// serverAccount is ourselves, unless we are root.
func serverAccount() (account, error) {
	as, err := child.Unprivileged()
	return account{as}, err
}

// own gives path to the account.
func (a account) own(path string) error {
	if a.as == nil {
		return nil
	}
	return os.Lchown(path, int(a.as.Uid), int(a.as.Gid))
}

// apply makes a command run as the account.
func (a account) apply(attr *syscall.SysProcAttr) { attr.Credential = a.as }
