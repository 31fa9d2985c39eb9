import { setHeaders } from '../api/set-headers.ts';
import type { Stage } from '../request-state.ts';

export type SecurityHeaders = Readonly<Record<string, string>>;

/** A year (RFC 6797 6.1.1). Subdomains are the operator's to decide on, and a preload list is hard to leave. */
const transportSecurity = 'max-age=31536000';

/** What every answer of the public listener has: it is of the type that it says and no other, and reached by TLS where its address is. */
export function securityHeaders(baseUrl: string): SecurityHeaders {
  const isSecure = new URL(baseUrl).protocol === 'https:';
  return {
    'x-content-type-options': 'nosniff',
    ...(isSecure ? { 'strict-transport-security': transportSecurity } : {}),
  };
}

/** Before any stage that could fail. */
export function setSecurityHeaders(headers: SecurityHeaders): Stage {
  return function setSecurityHeaders(ctx, next) {
    setHeaders(ctx.res, headers);
    return next();
  };
}
