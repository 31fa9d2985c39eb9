import type { Surroundings } from './session.ts';

const channelName = 'console';

/** The session's surroundings in a real browser. */
export function createBrowserSurroundings(): Surroundings {
  const channel = new BroadcastChannel(channelName);
  return {
    storage: findStorage(),
    address: () => new URL(window.location.href),
    replaceAddress: (url) => window.history.replaceState(null, '', url),
    leaveFor: (url, { inPlace }) => (inPlace ? window.location.replace(url) : window.location.assign(url)),
    later(run, ms) {
      const timer = window.setTimeout(run, ms);
      return () => window.clearTimeout(timer);
    },
    others: {
      tell: () => channel.postMessage('signed out'),
      hear: (run) => channel.addEventListener('message', run),
    },
  };
}

/** A browser that keeps nothing for pages can show this one all the same; no sign-in comes back to it. */
function findStorage(): Surroundings['storage'] {
  try {
    window.sessionStorage.getItem('');
    return window.sessionStorage;
  } catch {
    const kept = new Map<string, string>();
    return {
      getItem: (name) => kept.get(name) ?? null,
      setItem: (name, value) => void kept.set(name, value),
      removeItem: (name) => void kept.delete(name),
    };
  }
}
