/** Origins beside our own that a page may fetch from, and that its forms may be sent to. */
export type Reach = { connect?: readonly string[]; formAction?: readonly string[] };

/**
 * What a page of ours may do (CSP Level 3): load scripts, styles and pictures from our own host and nothing inline, be framed
 * by nobody, and make no HTML of text.
 */
export function contentSecurityPolicy({ connect = [], formAction = [] }: Reach = {}): string {
  const directives = {
    'default-src': ["'none'"],
    'script-src': ["'self'"],
    'style-src': ["'self'"],
    'img-src': ["'self'"],
    'connect-src': ["'self'", ...connect],
    'form-action': formAction.length > 0 ? formAction : ["'none'"],
    'base-uri': ["'none'"],
    'frame-ancestors': ["'none'"],
    'require-trusted-types-for': ["'script'"],
  };
  return Object.entries(directives)
    .map(([name, sources]) => [name, ...new Set(sources)].join(' '))
    .join('; ');
}
