import { h, render } from 'preact';
import { createApi } from './api/api.ts';
import { App } from './page/app.ts';
import { readSettings } from './read-settings.ts';
import { browser } from './session/browser.ts';
import { createIdentityProvider } from './session/identity-provider.ts';
import { createSession } from './session/session.ts';

const settings = readSettings(document);
const session = createSession({ provider: createIdentityProvider(settings), ...browser });
const api = createApi({ baseUrl: settings.baseUrl, session });
// The address that the issuer sent the browser back to is gone before anything is shown, which goes by the address.
const started = session.start();
const root = document.getElementById('app');
if (root !== null) {
  root.replaceChildren();
  render(h(App, { session, api, settings }), root);
}
await started;
