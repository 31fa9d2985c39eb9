/** Settings of the service for the page. None of them is secret. */
export type ConsoleSettings = {
  /** Address of the API, without a slash at the end; `audience` is that of its sign-in tokens. */
  baseUrl: string;
  audience: string;
  /** Address of the page, to which the issuer redirects. */
  consoleUrl: string;
  docsUrl: string;
  issuer: string;
  consoleClientId: string;
};
