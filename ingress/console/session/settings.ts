/** What the page is told of the service it belongs to. Nothing in it is secret. */
export type ConsoleSettings = {
  /** The API, without a slash at its end, and the audience of its sign-in tokens. */
  baseUrl: string;
  audience: string;
  /** The page's own address, which the issuer sends people back to. */
  consoleUrl: string;
  docsUrl: string;
  issuer: string;
  consoleClientId: string;
};
