package endpoint

import (
	"strings"

	"github.com/pgweir/pgweir/config/values"
)

// unknown complains about a parameter that means nothing here.
func (p *urlParser) unknown(key string, from, to int) {
	key = printableKey(key)
	if advice := libpqAdvice(key); advice != "" {
		p.complain(from, to, key+" is not a parameter here", advice)
		return
	}
	known := []string{
		"host", "port", "user", "password", "dbname", "target_session_attrs",
		"keepalives_idle", "keepalives_interval", "keepalives_count",
	}
	known = append(secureParameters(), known...)
	advice := "Leave it out; the parameters are " + strings.Join(known, ", ") + "."
	if near := values.Nearest(key, known); near != "" {
		advice = "Did you mean " + near + "?"
	}
	p.complain(from, to, key+" is not a parameter of a connection", advice)
}

// libpqAdvice is what to do about a parameter that libpq has and pgweir has not, or "".
func libpqAdvice(key string) string {
	switch key {
	case "connect_timeout":
		return `Write server_connect_timeout = "5s" below the URL.`
	case "tcp_user_timeout":
		return `Write tcp_user_timeout = "30s" below the URL.`
	case "keepalives":
		return "Leave it out: they are on; keepalives_idle, keepalives_interval and keepalives_count say how."
	case "hostaddr":
		return "Write the address in the place of the host. With sslmode=verify-full the certificate has to be for that address then."
	case "load_balance_hosts":
		return "Leave it out: hosts are tried in their order, and the one that serves is kept."
	case "application_name", "fallback_application_name", "client_encoding", "options", "replication":
		return "Leave it out: sessions have what their clients ask for. What all sessions of a role are to have is said in Postgres, by ALTER ROLE ... SET."
	case "passfile", "service":
		return `Write the whole URL as "${NAME}", an environment variable, if it is to be elsewhere than in this file.`
	case "require_auth":
		return "Leave it out; channel_binding=require lets in nobody but who knows the SCRAM verifier of the role, and has the certificate that was shown."
	case "sslcrl", "sslcrldir":
		return "Leave it out: there are no revocation lists. Take the authority out of sslrootcert, and give servers certificates that end soon."
	case "sslpassword":
		return "Leave it out: the key is read without a passphrase. Write one that has none (openssl pkey -in KEY -out PLAIN) into a file that only pgweir may read."
	case "sslcertmode":
		return "Leave it out: a certificate is shown if sslcert names one and the server asks for it."
	case "sslcompression":
		return "Leave it out: TLS compresses nothing any more."
	case "gssencmode", "gsslib", "gssdelegation", "krbsrvname":
		return "Leave it out: GSSAPI is not spoken."
	}
	return ""
}
