/*
 * libqclimb-tls.so: what an application hands to OpenSSL's SSL_write() announces, told to libqclimb.so as the flow's
 * size. An option of its own, preloaded behind it by whoever wants that: it looks at plaintext. HTTP/1.x alone; OpenSSL
 * linked dynamically; TLS 1.3, and 1.2 with AEAD ciphers, whose records are longer than their plaintext by a constant.
 *
 * Invariant: OpenSSL's calls go through as they are, with their result and errno; nothing is kept of what they write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <qclimb/length.h>

#include "../include/qclimb.h"

#define EXPORT __attribute__((visibility("default")))
#define RECORD_BYTES 16384 /* of plaintext at most (RFC 8446, section 5.1) */
#define TLS1_2 0x0303
#define TLS1_3 0x0304

/* OpenSSL's, without its headers: any version that has these names. */
typedef struct ssl_st SSL;
typedef struct ssl_cipher_st SSL_CIPHER;

EXPORT int SSL_write(SSL *ssl, const void *bytes, int len);
EXPORT int SSL_write_ex(SSL *ssl, const void *bytes, size_t len, size_t *written);

static struct {
	int (*write)(SSL *ssl, const void *bytes, int len);
	int (*write_ex)(SSL *ssl, const void *bytes, size_t len, size_t *written);
	int (*get_wfd)(const SSL *ssl);
	int (*version)(const SSL *ssl);
	const SSL_CIPHER *(*get_current_cipher)(const SSL *ssl);
	const char *(*cipher_get_name)(const SSL_CIPHER *cipher);
} real;

/* Behind this library where the program is linked with OpenSSL; else in the one that it loaded for itself alone. */
static void *symbol(const char *name)
{
	static const char *const files[] = { "libssl.so.3", "libssl.so.1.1", "libssl.so" };
	void *found = dlsym(RTLD_NEXT, name), *file;

	for (size_t i = 0; !found && i < sizeof(files) / sizeof(*files); i++) {
		file = dlopen(files[i], RTLD_LAZY | RTLD_NOLOAD);
		if (file) {
			found = dlsym(file, name);
			(void)dlclose(file);
		}
	}
	return found;
}

/* Found at each first call, by any thread alike: the same words; `write` comes last. */
static void find(void)
{
	*(void **)&real.write_ex = symbol("SSL_write_ex");
	*(void **)&real.get_wfd = symbol("SSL_get_wfd");
	*(void **)&real.version = symbol("SSL_version");
	*(void **)&real.get_current_cipher = symbol("SSL_get_current_cipher");
	*(void **)&real.cipher_get_name = symbol("SSL_CIPHER_get_name");
	*(void **)&real.write = symbol("SSL_write");
}

/* Bytes that a record has beside its plaintext: header, what a nonce needs, tag; 0: not known. */
static uint64_t record_overhead(const SSL *ssl)
{
	const SSL_CIPHER *cipher;
	const char *name;

	if (!real.version || !real.get_current_cipher || !real.cipher_get_name)
		return 0;
	if (real.version(ssl) == TLS1_3)
		return 5 + 1 + 16; /* the true type of the content goes inside (RFC 8446, section 5.2) */
	cipher = real.version(ssl) == TLS1_2 ? real.get_current_cipher(ssl) : NULL;
	name = cipher ? real.cipher_get_name(cipher) : NULL;
	if (!name)
		return 0;
	if (strstr(name, "CHACHA20"))
		return 5 + 16; /* RFC 7905 */
	return strstr(name, "GCM") ? 5 + 8 + 16 : 0; /* RFC 5288 */
}

static uint64_t records_of(uint64_t bytes)
{
	return (bytes + RECORD_BYTES - 1) / RECORD_BYTES;
}

/* Whether these may be HTTP's first bytes; so that most writes cost a comparison. */
static int is_like_http(const uint8_t *head, size_t len)
{
	return len >= 16 && (!memcmp(head, "HTTP/1.", 7) || !memcmp(head, "PUT ", 4) || !memcmp(head, "POST", 4) ||
			     !memcmp(head, "PATC", 4));
}

/* The body is taken to be written in whole records behind this call, as servers do. */
static void announce(const SSL *ssl, const void *bytes, size_t len)
{
	const int saved = errno;
	uint64_t size, overhead;
	int fd;

	if (!bytes || !is_like_http(bytes, len) || !real.get_wfd)
		return;
	size = qclimb_http_foretell(bytes, len < QCLIMB_HTTP_HEAD_BYTES ? (uint32_t)len : QCLIMB_HTTP_HEAD_BYTES,
				    QCLIMB_HTTP_OTHER);
	overhead = size > len ? record_overhead(ssl) : 0; /* what is whole in this call, the calls below it prove */
	fd = overhead ? real.get_wfd(ssl) : -1;
	if (fd >= 0)
		(void)qclimb_flow_size(fd, size + overhead * (records_of(len) + records_of(size - len)));
	errno = saved;
}

EXPORT int SSL_write(SSL *ssl, const void *bytes, int len)
{
	if (!real.write)
		find();
	if (!real.write)
		return -1; /* nobody can have called it */
	if (len > 0)
		announce(ssl, bytes, (size_t)len);
	return real.write(ssl, bytes, len);
}

EXPORT int SSL_write_ex(SSL *ssl, const void *bytes, size_t len, size_t *written)
{
	if (!real.write)
		find();
	if (!real.write_ex)
		return 0;
	announce(ssl, bytes, len);
	return real.write_ex(ssl, bytes, len, written);
}
