import { setHeaders } from '../listener/headers.ts';
import type { Stage } from '../request-state.ts';

export type SecurityHeaders = Readonly<Record<string, string>>;

/** A year (RFC 6797 6.1.1). The operator decides on subdomains, and a preload list is hard to leave. */
const transportSecurity = 'max-age=31536000';

/** Returns the headers of every response of the public listener: its content type is final, and an `https:` service requires TLS. */
export function securityHeaders(baseUrl: string): SecurityHeaders {
  const isSecure = new URL(baseUrl).protocol === 'https:';
  return {
    'x-content-type-options': 'nosniff',
    ...(isSecure ? { 'strict-transport-security': transportSecurity } : {}),
  };
}

/** Must come before any stage that could fail. */
export function setSecurityHeaders(headers: SecurityHeaders): Stage {
  return function setSecurityHeaders(ctx, next) {
    setHeaders(ctx.res, headers);
    return next();
  };
}
