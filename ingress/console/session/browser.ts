import type { Surroundings } from './session.ts';

/** The session's surroundings in a real browser. */
export const browser: Surroundings = {
  storage: window.sessionStorage,
  address: () => new URL(window.location.href),
  replaceAddress: (url) => window.history.replaceState(null, '', url),
  leaveFor: (url) => window.location.assign(url),
  later(run, ms) {
    const timer = window.setTimeout(run, ms);
    return () => window.clearTimeout(timer);
  },
};
