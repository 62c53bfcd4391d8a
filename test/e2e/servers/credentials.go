package servers

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// issuer is who signs the tokens of service accounts, and for whom they are.
const issuer = "https://kubernetes.default.svc"

// Files in the server's folder.
const (
	keyFile       = "sa.key"      // signs tokens and client certificates
	clientCAsFile = "clients.crt" // whose client certificates the API server takes
)

// clockSkew is for how long the API server still takes a token that expired.
const clockSkew = time.Minute

// AccountToken returns a token of a service account that the API server takes
// until the given time, or for the ten seconds longer that it remembers a token
// for. It is signed by the server's own key, but as short-lived as one likes, where
// the server itself gives out none for less than ten minutes.
func (k *Kube) AccountToken(namespace, name, uid string, until time.Time) (string, error) {
	issued, expires := time.Now().Add(-time.Hour).Unix(), until.Add(-clockSkew).Unix()
	claims, err := json.Marshal(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:" + namespace + ":" + name,
		"iat": issued, "nbf": issued, "exp": expires,
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]string{"name": name, "uid": uid}},
	})
	if err != nil {
		return "", err
	}
	key, err := k.key()
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	token := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(token))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return token + "." + encode(signature), err
}

// Certificate issues a client certificate, in PEM, that the API server takes for
// that user until the given time.
func (k *Kube) Certificate(user string, until time.Time) (certificate, key []byte, err error) {
	signer, err := k.key()
	if err != nil {
		return nil, nil, err
	}
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, clientCA(), own.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(own)}), nil
}

// clientCA is the authority of client certificates, before it is signed.
func clientCA() *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients of the test's API server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

// writeKeys makes the server's key and the authority of client certificates.
func (k *Kube) writeKeys() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(filepath.Join(k.dir, keyFile), block, 0o600); err != nil {
		return err
	}
	ca, err := x509.CreateCertificate(rand.Reader, clientCA(), clientCA(), key.Public(), key)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(k.dir, clientCAsFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca}), 0o600)
}

func (k *Kube) key() (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(k.dir, keyFile))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New(keyFile + " holds no key")
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}
