package decode

import (
	"fmt"

	"github.com/pgweir/pgweir/config/endpoint"
)

// checkTLS sees to it that there is a certificate where the mode promises encryption, and
// whatever goes with it.
func (d *Decoder) checkTLS() {
	t := &d.File.TLS
	if !d.Fine("tls.sslmode", "tls.cert_file", "tls.key_file", "tls.ca_file") || t.SSLMode == endpoint.Disable {
		return
	}
	const pair = `Write cert_file = "server.crt" and key_file = "server.key".`
	lacks := func(key, message, fix string) { d.complainAt("tls."+key, d.placeOf("tls."+key), message, fix) }
	switch {
	case t.CertFile == "" && t.KeyFile != "":
		lacks("key_file", "is the key of which certificate? There is no cert_file", pair)
	case t.CertFile == "" && t.CAFile != "":
		lacks("ca_file", "clients cannot show a certificate without encryption, and there is no cert_file", pair)
	case t.CertFile == "" && t.SSLMode != endpoint.Prefer:
		lacks("sslmode", fmt.Sprintf("%q needs a certificate", t.SSLMode), pair)
	case t.CertFile != "" && t.KeyFile == "":
		lacks("cert_file", "has no key_file", pair)
	case t.CAFile == "" && (t.SSLMode == endpoint.VerifyCA || t.SSLMode == endpoint.VerifyFull):
		lacks("sslmode", fmt.Sprintf("%q needs to know whose certificates of clients are good", t.SSLMode), `Write ca_file = "root.crt".`)
	}
}
