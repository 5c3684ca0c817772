// The index of the search comes when somebody goes to the search, and by a <script>: a page that was opened as a file
// may not fetch. Nor may it start a worker from a file, so there the worker is made of text.
(() => {
  const { base } = document.currentScript.dataset;
  const load = (name) => {
    const script = document.createElement("script");
    script.src = `${base}/${name}`;
    document.head.append(script);
  };

  globalThis.__search = {
    index: new Promise((resolve) => {
      const begin = ({ target }) => {
        if (!target.closest?.(".md-search, [for=__search]")) return;
        for (const event of ["focusin", "pointerdown"]) document.removeEventListener(event, begin);
        globalThis.__searchIndex = resolve;
        load("search/search_index.js");
      };
      for (const event of ["focusin", "pointerdown"]) document.addEventListener(event, begin);
    }),
  };

  const RealWorker = Worker;
  const isFile = location.protocol === "file:";
  const source = new Promise((resolve) => (globalThis.__searchWorker = resolve));
  if (isFile) load("search/search_worker.js");

  // The theme's messages to its worker, and the worker's to it.
  const SETUP = 0;
  const QUERY = 2;
  const RESULT = 3;

  // While the theme waits for an answer, it keeps only the last of its messages. Somebody who types while the index
  // comes would so replace the index by a query, for good. What is asked before the index is there is answered at once.
  globalThis.Worker = class extends EventTarget {
    #isSetUp = false;
    #worker;

    constructor(url) {
      super();
      this.#worker = this.#start(url);
    }

    async #start(url) {
      const text = isFile && (await source);
      const worker = new RealWorker(isFile ? URL.createObjectURL(new Blob([text], { type: "text/javascript" })) : url);
      worker.onmessage = ({ data }) => this.#tell(data);
      return worker;
    }

    #tell(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }

    async postMessage(message) {
      this.#isSetUp ||= message.type === SETUP;
      if (message.type === QUERY && !this.#isSetUp) {
        await null; // the theme is not listening yet
        this.#tell({ type: RESULT, data: { items: [] } });
      } else {
        (await this.#worker).postMessage(message);
      }
    }
  };
})();
