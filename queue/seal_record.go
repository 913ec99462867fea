package queue

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// A sealed record has the one header
//
//	Gw-Sealed: 1 KEYID SEALED
//
// in which SEALED is, in Base64 without padding, a nonce of 24 octets and then
// the sealed text NAME SPACE VALUE of the header that the record has in clear;
// its data is sealed as well. Both are XAES-256-GCM (C2SP), header and data under
// the one nonce, of which the data inverts the last bit. The header is bound to
// the subject. It can be opened without the data, as a scan does.
//
// What only numbers the store's own records stays in clear: see inClear.
const (
	headerSealed = "Gw-Sealed"
	sealVersion  = "1"
	recordNonce  = 24
	// sealGrows is what a record takes more, at most, beside a third of its header.
	sealGrows = len(headerSealed) + len(sealVersion) + 2*len(keyID{}) + (recordNonce+2*sealTag)*2
)

// inClear are the subjects whose records hold numbers of the store's own.
func inClear(subject string) bool {
	return subject == subjectMark || strings.HasPrefix(subject, subjectGone) || strings.HasPrefix(subject, subjectReplyHour)
}

// recordKey makes keys for records: XAES-256-GCM derives one from each nonce, so
// that random nonces can be used for as many records as anybody will ever keep.
type recordKey struct {
	block cipher.Block
	mask  [aes.BlockSize]byte // K1 of the derivation
}

func newRecordKey(secret []byte) (k recordKey, err error) {
	if k.block, err = aes.NewCipher(secret); err != nil {
		return k, err
	}
	k.block.Encrypt(k.mask[:], k.mask[:])
	carry := byte(0)
	for i := len(k.mask) - 1; i >= 0; i-- {
		next := k.mask[i] >> 7
		k.mask[i] = k.mask[i]<<1 | carry
		carry = next
	}
	k.mask[len(k.mask)-1] ^= carry * 0x87
	return k, nil
}

// aead returns the cipher for the first half of a nonce; the second half is its nonce.
func (k *recordKey) aead(nonce []byte) (cipher.AEAD, error) {
	var secret [2 * aes.BlockSize]byte
	for i := range 2 {
		block := secret[i*aes.BlockSize : (i+1)*aes.BlockSize]
		block[1], block[2] = byte(i+1), 'X'
		copy(block[4:], nonce[:12])
		for j := range block {
			block[j] ^= k.mask[j]
		}
		k.block.Encrypt(block, block)
	}
	c, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(c)
}

// sealedSize is how many octets more a record takes when it is sealed.
func (k *Keys) sealedSize(r *record) int {
	if !k.Sealing() || inClear(r.subject) {
		return 0
	}
	return sealGrows + (len(r.name)+len(r.header))/3
}

// sealRecord seals a record. The data is copied: the caller keeps what it gave.
func (k *Keys) sealRecord(r record) (record, error) {
	if !k.Sealing() || r.subject == "" || inClear(r.subject) {
		return r, nil
	}
	one := &k.keys[0]
	head := make([]byte, recordNonce, recordNonce+len(r.name)+1+len(r.header)+sealTag)
	if _, err := rand.Read(head); err != nil {
		return r, err
	}
	aead, err := one.records.aead(head)
	if err != nil {
		return r, err
	}
	var nonce [12]byte
	copy(nonce[:], head[12:])
	head = append(append(append(head, r.name...), ' '), r.header...)
	head = aead.Seal(head[:recordNonce], nonce[:], head[recordNonce:], []byte(r.subject))
	nonce[11] ^= 1
	data := aead.Seal(nil, nonce[:], r.data, nil)

	id := one.id.String()
	text := make([]byte, 0, len(sealVersion)+len(id)+2+base64.RawStdEncoding.EncodedLen(len(head)))
	text = append(append(append(append(text, sealVersion...), ' '), id...), ' ')
	return record{r.subject, headerSealed, string(base64.RawStdEncoding.AppendEncode(text, head)), data}, nil
}

var errSeal = errors.New("sealed record is not as it was written")

// openRecord makes of a message that was sealed what was written. Without its
// data, as a scan of headers gives it, only the header is opened. sealed is the
// key it was sealed with, or [noKey]. It fails with [ErrKey] if that is none of
// these, and otherwise with [ErrCorrupt].
func (k *Keys) openRecord(subject string, m *nats.Msg, withData bool) (sealed string, err error) {
	value := m.Header.Get(headerSealed)
	if value == "" {
		return noKey, nil
	}
	version, rest, _ := strings.Cut(value, " ")
	name, text, _ := strings.Cut(rest, " ")
	var id keyID
	if n, err := hex.Decode(id[:], []byte(cut(name, 2*len(id)))); version != sealVersion || err != nil || n != len(id) || len(name) != 2*len(id) {
		return "", fmt.Errorf("%w: %w", ErrCorrupt, errSeal)
	}
	one, err := k.find(id)
	if err != nil {
		return name, err
	}
	head, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil || len(head) < recordNonce+sealTag {
		return name, fmt.Errorf("%w: %w", ErrCorrupt, errSeal)
	}
	aead, err := one.records.aead(head)
	if err != nil {
		return name, err
	}
	var nonce [12]byte
	copy(nonce[:], head[12:])
	plain, err := aead.Open(head[recordNonce:recordNonce], nonce[:], head[recordNonce:], []byte(subject))
	if err != nil {
		return name, fmt.Errorf("%w: %w", ErrCorrupt, errSeal)
	}
	if withData {
		nonce[11] ^= 1
		if m.Data, err = aead.Open(m.Data[:0], nonce[:], m.Data, nil); err != nil {
			return name, fmt.Errorf("%w: %w", ErrCorrupt, errSeal)
		}
	}
	header, v, _ := strings.Cut(string(plain), " ")
	m.Header.Del(headerSealed)
	m.Header[header] = []string{v}
	return name, nil
}

// logSubject is where the messages of a destination are kept in the log: it
// does not show which destination that is.
func (k *Keys) logSubject(destination string) string {
	if !k.Sealing() {
		return logSubject(destination)
	}
	return subjectLog + fmt.Sprintf("%x", binary.BigEndian.Uint16(k.keys[0].name("destination", destination)))
}

// stateSubjects are where a state of this name may be: the first is where it is
// written to.
func (k *Keys) stateSubjects(name string) ([]string, error) {
	plain, err := subjectToken(name)
	if err != nil {
		return nil, err
	}
	var all []string
	if k != nil {
		for i := range k.keys {
			all = append(all, subjectState+"s"+hex.EncodeToString(k.keys[i].name("state", name)[:16]))
		}
	}
	if plain = subjectState + plain; k.Sealing() {
		return append(all, plain), nil
	}
	return append([]string{plain}, all...), nil
}
