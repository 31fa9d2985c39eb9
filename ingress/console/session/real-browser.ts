import type { Browser, PageStorage } from './browser.ts';

const channelName = 'console';

export function createRealBrowser(): Browser {
  const channel = new BroadcastChannel(channelName);
  return {
    storage: findStorage(() => window.sessionStorage),
    sharedStorage: findStorage(() => window.localStorage),
    address: () => new URL(window.location.href),
    isReload: () =>
      performance.getEntriesByType('navigation').some((entry) => 'type' in entry && entry.type === 'reload'),
    replaceAddress: (url) => window.history.replaceState(null, '', url),
    leaveFor: (url, { inPlace }) => (inPlace ? window.location.replace(url) : window.location.assign(url)),
    later(run, ms) {
      const timer = window.setTimeout(run, ms);
      return () => window.clearTimeout(timer);
    },
    otherTabs: {
      announceSignOut: () => channel.postMessage('signed out'),
      onSignOut: (run) => channel.addEventListener('message', run),
    },
  };
}

/** If the browser has disabled page storage, the page still loads, but no sign-in can complete. */
function findStorage(find: () => PageStorage): PageStorage {
  try {
    const storage = find();
    storage.getItem('');
    return storage;
  } catch {
    const kept = new Map<string, string>();
    return {
      getItem: (name) => kept.get(name) ?? null,
      setItem: (name, value) => void kept.set(name, value),
      removeItem: (name) => void kept.delete(name),
    };
  }
}
