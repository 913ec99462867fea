package queue

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A sealed file is
//
//	MAGIC (8 octets) KEYID (8) SALT (32) CHUNK…
//
// where a chunk is AES-256-GCM (NIST SP 800-38D) of sealChunk octets, of the
// last at most so many, and followed by its tag. The key of the file is derived
// from the key of that id, the salt and the name of the file, so that no two
// files share one and none can stand in for another. The nonce is the number
// of the chunk, from 0, in 11 octets, and one octet that is 1 for the last
// chunk: none can be moved, left out or repeated, and no end can be cut off.
const (
	sealMagic  = "SWSEAL\r\x01"
	sealSalt   = 32
	sealHeader = len(sealMagic) + len(keyID{}) + sealSalt
	sealChunk  = 64 << 10
	sealTag    = 16
	// sealChunks is how many a file may have: the bound of GCM for one key
	// with room to spare, and 256 TiB.
	sealChunks = 1 << 32
)

// SealedSize is how many octets n octets take when they are sealed.
func SealedSize(n int64) int64 {
	return int64(sealHeader) + n + sealTag*max(1, (n+sealChunk-1)/sealChunk)
}

// fileCipher is the cipher of one file, and its place in it.
type fileCipher struct {
	aead  cipher.AEAD
	chunk uint64
	nonce [12]byte
}

func newFileCipher(k *key, salt []byte, name string) (*fileCipher, error) {
	secret, err := k.derive("soapway sealed file 1\x00"+name, salt, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &fileCipher{aead: aead}, nil
}

// next returns the nonce of the next chunk.
func (c *fileCipher) next(last bool) ([]byte, error) {
	if c.chunk >= sealChunks {
		return nil, fmt.Errorf("%w: a sealed file of more than %d chunks", ErrTooLarge, uint64(sealChunks))
	}
	binary.BigEndian.PutUint64(c.nonce[3:], c.chunk)
	c.nonce[11] = 0
	if last {
		c.nonce[11] = 1
	}
	c.chunk++
	return c.nonce[:], nil
}

// Seal returns a writer that seals what it is given into w, under the name that
// Unseal has to be given; unless [Keys.Sealing] it passes everything on as it is. What
// was written is complete only once Close has returned nil: until then it is
// cut off, and found to be. Close does not close w. It holds one chunk.
func (k *Keys) Seal(w io.Writer, name string) (io.WriteCloser, error) {
	if !k.Sealing() {
		return plainWriter{w}, nil
	}
	one := &k.keys[0]
	head := make([]byte, sealHeader)
	copy(head, sealMagic)
	copy(head[len(sealMagic):], one.id[:])
	salt := head[sealHeader-sealSalt:]
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	c, err := newFileCipher(one, salt, name)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(head); err != nil {
		return nil, err
	}
	return &sealer{w: w, cipher: c, buf: make([]byte, 0, sealChunk+sealTag)}, nil
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// sealer is the writer of a sealed file.
type sealer struct {
	w      io.Writer
	cipher *fileCipher
	buf    []byte // of the chunk that is being filled
	err    error
}

// Write implements [io.Writer]. A full chunk stays until more comes: only then
// it is known not to be the last.
func (s *sealer) Write(p []byte) (n int, err error) {
	for len(p) > 0 && s.err == nil {
		if len(s.buf) == sealChunk {
			s.flush(false)
			continue
		}
		m := min(len(p), sealChunk-len(s.buf))
		s.buf = append(s.buf, p[:m]...)
		p = p[m:]
		n += m
	}
	return n, s.err
}

// flush writes the chunk.
func (s *sealer) flush(last bool) {
	nonce, err := s.cipher.next(last)
	if err == nil {
		_, err = s.w.Write(s.cipher.aead.Seal(s.buf[:0], nonce, s.buf, nil))
	}
	s.buf = s.buf[:0]
	s.err = err
}

var errSealed = errors.New("queue: sealed file is closed")

// Close writes the last chunk.
func (s *sealer) Close() error {
	if s.err != nil {
		return s.err
	}
	if s.flush(true); s.err != nil {
		return s.err
	}
	s.err = errSealed
	return nil
}

// Unseal returns a reader of what Seal wrote under this name with one of the
// keys; nil keys pass everything on as it is. Whether a file is sealed is for the
// caller to know, who has noted [Keys.Sealing] with it: it is not guessed from the file.
//
// Every octet that is read has been authenticated, and io.EOF means that the
// file ended where its writer ended it. Errors: [ErrKey] when the key is none of
// these, [ErrCorrupt] when the file is not as it was written; those of r as they
// are. It holds one chunk.
func (k *Keys) Unseal(r io.Reader, name string) (io.Reader, error) {
	if k == nil {
		return r, nil
	}
	var head [sealHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, broken(err, "its head is cut off")
	}
	if string(head[:len(sealMagic)]) != sealMagic {
		return nil, fmt.Errorf("%w: not a sealed file", ErrCorrupt)
	}
	one, err := k.find(keyID(head[len(sealMagic):]))
	if err != nil {
		return nil, err
	}
	c, err := newFileCipher(one, head[sealHeader-sealSalt:], name)
	if err != nil {
		return nil, err
	}
	return &unsealer{r: r, cipher: c, buf: make([]byte, sealChunk+sealTag+1)}, nil
}

// broken tells the end of a file that came too early from an error of the reader.
func broken(err error, what string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: sealed file: %s", ErrCorrupt, what)
	}
	return err
}

// unsealer is the reader of a sealed file.
type unsealer struct {
	r      io.Reader
	cipher *fileCipher
	buf    []byte // a chunk and its tag, and one octet that tells whether another follows
	ahead  int    // octets at the start of buf that were read with the chunk before: 0 or 1
	ready  []byte // opened, in buf
	err    error  // sticks, once ready is empty
}

// Read implements [io.Reader].
func (u *unsealer) Read(p []byte) (int, error) {
	for len(u.ready) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		u.open()
	}
	n := copy(p, u.ready)
	u.ready = u.ready[n:]
	return n, nil
}

// open reads the next chunk. The octet behind it goes to the front only with the
// next call, when the chunk, which is opened in its place, has been read.
func (u *unsealer) open() {
	if u.ahead == 1 {
		u.buf[0] = u.buf[len(u.buf)-1]
	}
	n, err := io.ReadFull(u.r, u.buf[u.ahead:])
	n += u.ahead
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		u.err = err
		return
	}
	last := err != nil
	if last {
		u.err = io.EOF
	} else {
		n--
		u.ahead = 1
	}
	first := u.cipher.chunk == 0
	nonce, err := u.cipher.next(last)
	if err == nil {
		if u.ready, err = u.cipher.aead.Open(u.buf[:0], nonce, u.buf[:n], nil); err != nil {
			err = fmt.Errorf("%w: sealed file: chunk %d is not as it was written", ErrCorrupt, u.cipher.chunk-1)
		} else if last && !first && len(u.ready) == 0 {
			err = fmt.Errorf("%w: sealed file: an empty chunk", ErrCorrupt) // no writer makes one
		}
	}
	if err != nil {
		u.ready, u.err = nil, err
	}
}
