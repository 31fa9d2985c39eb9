/**
 * The content security policy of our pages (CSP Level 3): scripts, styles and images only from our own host and not inline; `fetch` also
 * to these origins; no form submissions, no framing, and no HTML from strings.
 */
export function contentSecurityPolicy(connect: readonly string[] = []): string {
  const directives = {
    'default-src': ["'none'"],
    'script-src': ["'self'"],
    'style-src': ["'self'"],
    'img-src': ["'self'"],
    'connect-src': ["'self'", ...connect],
    'form-action': ["'none'"],
    'base-uri': ["'none'"],
    'frame-ancestors': ["'none'"],
    'require-trusted-types-for': ["'script'"],
    'trusted-types': ["'none'"],
  };
  return Object.entries(directives)
    .map(([name, sources]) => [name, ...new Set(sources)].join(' '))
    .join('; ');
}
