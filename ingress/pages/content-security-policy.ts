/**
 * What a page of ours may do (CSP Level 3): load scripts, styles and pictures from our own host and nothing inline, and fetch
 * from there and from these origins. It sends no form, is framed by nobody, and makes no HTML of text.
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
  };
  return Object.entries(directives)
    .map(([name, sources]) => [name, ...new Set(sources)].join(' '))
    .join('; ');
}
