/**
 * What a page of ours may do (CSP Level 3): load scripts, styles and pictures from our own host and nothing inline, and fetch
 * from there and from these origins. It sends no form, is framed by nobody, and makes no HTML of text.
 */
export function contentSecurityPolicy(connect: readonly string[] = []): string {
  return policyOf({ script: ["'self'"], connect: ["'self'", ...connect] });
}

/** The same for a page that runs no script and fetches nothing. */
export function scriptlessPolicy(): string {
  return policyOf({ script: ["'none'"], connect: ["'none'"] });
}

function policyOf({ script, connect }: { script: readonly string[]; connect: readonly string[] }): string {
  const directives = {
    'default-src': ["'none'"],
    'script-src': script,
    'style-src': ["'self'"],
    'img-src': ["'self'"],
    'connect-src': connect,
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
