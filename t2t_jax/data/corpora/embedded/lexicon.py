"""The words of the embedded corpus: tables, a word or a short list of words a line.

Columns stand apart by two or more spaces. English irregular forms follow after slashes.

Nouns   `mouse/mice  die Maus  Mäuse`: English, German with its article, German plural; a slash
        in the German singular gives the form of the other cases (`der Bär/Bären`); `-` is a
        missing plural.
Verbs   `eat/ate/eaten  essen  isst  gegessen  A  person>food`: infinitive (`auf|machen` is
        separable, `Fußball spielen` has a fixed complement), third person singular, participle
        (with `ist` where the perfect takes sein), what the object looks like (`A` accusative,
        `D` dative, `auf A` a preposition), then who does it to whom. A star marks a verb
        without progressive (`know*`).
Adjectives and adverbs   `expensive teuer/teur`: the stem for endings follows a slash.

Frequent words come first: the further down, the rarer in the corpus. words.py makes words of it.
"""

NOUNS_TABLE = {
    # "My sister" but "a king"; a neighbour may be either.
    "stranger": """
        man/men                  der Mann                  Männer
        woman/women              die Frau                  Frauen
        student                  der Student/Studenten     Studenten
        queen                    die Königin               Königinnen
        king                     der König                 Könige
        farmer                   der Bauer/Bauern          Bauern
        nurse                    die Krankenschwester      Krankenschwestern
        baker                    der Bäcker                Bäcker
        pupil                    der Schüler               Schüler
        waitress                 die Kellnerin             Kellnerinnen
        policeman/policemen      der Polizist/Polizisten   Polizisten
        gardener                 der Gärtner               Gärtner
        princess                 die Prinzessin            Prinzessinnen
        prince                   der Prinz/Prinzen         Prinzen
        guest                    der Gast                  Gäste
        customer                 der Kunde/Kunden          Kunden
        actress                  die Schauspielerin        Schauspielerinnen
        tourist                  der Tourist/Touristen     Touristen
        painter                  der Maler                 Maler
        dancer                   die Tänzerin              Tänzerinnen
        soldier                  der Soldat/Soldaten       Soldaten
        thief/thieves            der Dieb                  Diebe
        witch                    die Hexe                  Hexen
        hunter                   der Jäger                 Jäger
        pilot                    der Pilot/Piloten         Piloten
    """,
    "family": """
        mother                   die Mutter                -
        father                   der Vater                 -
        sister                   die Schwester             Schwestern
        brother                  der Bruder                Brüder
        grandmother              die Großmutter            -
        grandfather              der Großvater             -
        aunt                     die Tante                 Tanten
        uncle                    der Onkel                 Onkel
        daughter                 die Tochter               Töchter
        son                      der Sohn                  Söhne
    """,
    "child": """
        child/children           das Kind                  Kinder
        baby                     das Baby                  Babys
        boy                      der Junge/Jungen          Jungen
        girl                     das Mädchen               Mädchen
    """,
    "acquaintance": """
        teacher                  der Lehrer                Lehrer
        doctor                   der Arzt                  Ärzte
        neighbour                der Nachbar/Nachbarn      Nachbarn
        friend                   der Freund                Freunde
        colleague                der Kollege/Kollegen      Kollegen
    """,
    "pet": """
        dog                      der Hund                  Hunde
        cat                      die Katze                 Katzen
        horse                    das Pferd                 Pferde
        bird                     der Vogel                 Vögel
        pig                      das Schwein               Schweine
        cow                      die Kuh                   Kühe
        rabbit                   das Kaninchen             Kaninchen
        duck                     die Ente                  Enten
        goat                     die Ziege                 Ziegen
        chicken                  das Huhn                  Hühner
        lamb                     das Lamm                  Lämmer
        goose/geese              die Gans                  Gänse
        donkey                   der Esel                  Esel
    """,
    "wild animal": """
        mouse/mice               die Maus                  Mäuse
        bear                     der Bär/Bären             Bären
        fox                      der Fuchs                 Füchse
        lion                     der Löwe/Löwen            Löwen
        wolf/wolves              der Wolf                  Wölfe
        monkey                   der Affe/Affen            Affen
        elephant                 der Elefant/Elefanten     Elefanten
        camel                    das Kamel                 Kamele
        snake                    die Schlange              Schlangen
        frog                     der Frosch                Frösche
        squirrel                 das Eichhörnchen          Eichhörnchen
        turtle                   die Schildkröte           Schildkröten
        crocodile                das Krokodil              Krokodile
        hedgehog                 der Igel                  Igel
    """,
    "fruit": """
        apple                    der Apfel                 Äpfel
        egg                      das Ei                    Eier
        sausage                  die Wurst                 Würste
        banana                   die Banane                Bananen
        potato/potatoes          die Kartoffel             Kartoffeln
        biscuit                  der Keks                  Kekse
        roll                     das Brötchen              Brötchen
        tomato/tomatoes          die Tomate                Tomaten
        orange                   die Orange                Orangen
        carrot                   die Karotte               Karotten
    """,
    "dish": """
        bread                    das Brot                  -
        soup                     die Suppe                 Suppen
        cake                     der Kuchen                Kuchen
        cheese                   der Käse                  -
        meat                     das Fleisch               -
        salad                    der Salat                 Salate
        pizza                    die Pizza                 Pizzas
        rice                     der Reis                  -
        honey                    der Honig                 -
        butter                   die Butter                -
    """,
    "drink": """
        water                    das Wasser                -
        milk                     die Milch                 -
        tea                      der Tee                   -
        coffee                   der Kaffee                -
        juice                    der Saft                  -
        beer                     das Bier                  -
        lemonade                 die Limonade              -
    """,
    "reading": """
        book                     das Buch                  Bücher
        letter                   der Brief                 Briefe
        newspaper                die Zeitung               Zeitungen
        story                    die Geschichte            Geschichten
        poem                     das Gedicht               Gedichte
        novel                    der Roman                 Romane
        message                  die Nachricht             Nachrichten
        report                   der Bericht               Berichte
        fairy tale               das Märchen               Märchen
    """,
    "clothes": """
        coat                     der Mantel                Mäntel
        dress                    das Kleid                 Kleider
        jacket                   die Jacke                 Jacken
        hat                      der Hut                   Hüte
        shirt                    das Hemd                  Hemden
        scarf/scarves            der Schal                 Schals
        skirt                    der Rock                  Röcke
        shoe                     der Schuh                 Schuhe
        cap                      die Mütze                 Mützen
    """,
    "standing": """
        cup                      die Tasse                 Tassen
        glass                    das Glas                  Gläser
        suitcase                 der Koffer                Koffer
        bottle                   die Flasche               Flaschen
        basket                   der Korb                  Körbe
        bucket                   der Eimer                 Eimer
        box                      die Kiste                 Kisten
        vase                     die Vase                  Vasen
        bag                      die Tasche                Taschen
    """,
    "lying": """
        key                      der Schlüssel             Schlüssel
        ball                     der Ball                  Bälle
        present                  das Geschenk              Geschenke
        flower                   die Blume                 Blumen
        knife/knives             das Messer                Messer
        umbrella                 der Regenschirm           Regenschirme
        camera                   die Kamera                Kameras
        ring                     der Ring                  Ringe
        doll                     die Puppe                 Puppen
        pillow                   das Kissen                Kissen
        hammer                   der Hammer                Hämmer
        rope                     das Seil                  Seile
    """,
    "furniture": """
        table                    der Tisch                 Tische
        chair                    der Stuhl                 Stühle
        bed                      das Bett                  Betten
        cupboard                 der Schrank               Schränke
        shelf/shelves            das Regal                 Regale
        sofa                     das Sofa                  Sofas
        carpet                   der Teppich               Teppiche
    """,
    "opening": """
        door                     die Tür                   Türen
        window                   das Fenster               Fenster
    """,
    "device": """
        lamp                     die Lampe                 Lampen
        radio                    das Radio                 Radios
        computer                 der Computer              Computer
        television               der Fernseher             Fernseher
    """,
    "vehicle": """
        car                      das Auto                  Autos
        bicycle                  das Fahrrad               Fahrräder
        truck                    der Lastwagen             Lastwagen
        boat                     das Boot                  Boote
        bus                      der Bus                   Busse
        train                    der Zug                   Züge
        machine                  die Maschine              Maschinen
        tractor                  der Traktor               Traktoren
        ship                     das Schiff                Schiffe
    """,
    "structure": """
        house                    das Haus                  Häuser
        street                   die Straße                Straßen
        bridge                   die Brücke                Brücken
        tower                    der Turm                  Türme
        wall                     die Mauer                 Mauern
        fence                    der Zaun                  Zäune
    """,
    "room": """
        kitchen                  die Küche                 Küchen
        room                     das Zimmer                Zimmer
        garden                   der Garten                Gärten
        office                   das Büro                  Büros
        cellar                   der Keller                Keller
        bathroom                 das Badezimmer            Badezimmer
    """,
    # Places that one is "in" in both languages.
    "place": """
        school                   die Schule                Schulen
        park                     der Park                  Parks
        forest                   der Wald                  Wälder
        city                     die Stadt                 Städte
        village                  das Dorf                  Dörfer
        library                  die Bibliothek            Bibliotheken
        museum                   das Museum                Museen
        hotel                    das Hotel                 Hotels
        restaurant               das Restaurant            Restaurants
        hospital                 das Krankenhaus           Krankenhäuser
        church                   die Kirche                Kirchen
        shop                     der Laden                 Läden
        theatre                  das Theater               Theater
        zoo                      der Zoo                   Zoos
        stable                   der Stall                 Ställe
    """,
}

# Places with a preposition of their own: English "on the beach", German "am Strand".
PLACES_WITH_PREPOSITION = """
    on  an   beach     der Strand     Strände
    at  auf  market    der Markt      Märkte
    at  an   station   der Bahnhof    Bahnhöfe
    in  auf  field     das Feld       Felder
    on  auf  mountain  der Berg       Berge
    in  auf  meadow    die Wiese      Wiesen
    at  an   lake      der See        Seen
    at  an   airport   der Flughafen  Flughäfen
    on  auf  farm      der Bauernhof  Bauernhöfe
    at  an   river     der Fluss      Flüsse
"""

# A compound takes gender and plural of its second part; its first part may carry a linking sound.
COMPOUNDS_TABLE = {
    "furniture": (
        "kitchen Küchen, garden Garten, office Büro, school Schul, hotel Hotel",
        "table der Tisch Tische, chair der Stuhl Stühle, cupboard der Schrank Schränke",
    ),
    "device": (
        "kitchen Küchen, garden Garten, office Büro, bathroom Badezimmer",
        "lamp die Lampe Lampen, clock die Uhr Uhren, radio das Radio Radios",
    ),
    "opening": (
        "kitchen Küchen, cellar Keller, house Haus, church Kirchen, garage Garagen",
        "door die Tür Türen, window das Fenster Fenster",
    ),
    "lying": (
        "house Haus, car Auto, cellar Keller, hotel Hotel, suitcase Koffer",
        "key der Schlüssel Schlüssel",
    ),
    "reading": (
        "school Schul, children's Kinder, animal Tier",
        "book das Buch Bücher, story die Geschichte Geschichten",
    ),
    "clothes": (
        "winter Winter, summer Sommer, leather Leder",
        "coat der Mantel Mäntel, jacket die Jacke Jacken, dress das Kleid Kleider",
    ),
    "dish": (
        "tomato Tomaten, potato Kartoffel, vegetable Gemüse, onion Zwiebel",
        "soup die Suppe Suppen, salad der Salat Salate",
    ),
    "drink": ("apple Apfel, orange Orangen, tomato Tomaten", "juice der Saft -"),
    "place": ("village Dorf, city Stadt", "school die Schule Schulen, park der Park Parks"),
}

ADJECTIVES_TABLE = {
    "person": """
        old alt, young jung, small klein, tired müde, friendly freundlich, hungry hungrig, sick
        krank, happy glücklich, tall groß, clever klug, strong stark, rich reich, sad traurig,
        famous berühmt, lazy faul, angry wütend, brave mutig, poor arm, polite höflich, funny
        lustig, shy schüchtern, nervous nervös
    """,
    "child": """
        small klein, happy glücklich, tired müde, hungry hungrig, clever klug, sick krank, sad
        traurig, strong stark, lazy faul, angry wütend, brave mutig, polite höflich, funny lustig,
        shy schüchtern
    """,
    "animal": """
        big groß, small klein, old alt, black schwarz, white weiß, hungry hungrig, young jung,
        tired müde, brown braun, fast schnell, strong stark, sick krank, wild wild, fat dick, grey
        grau, brave mutig, clever klug, dangerous gefährlich, thirsty durstig, weak schwach
    """,
    "thing": """
        new neu, old alt, big groß, small klein, red rot, beautiful schön, blue blau, expensive
        teuer/teur, green grün, heavy schwer, white weiß, cheap billig, black schwarz, dirty
        schmutzig, yellow gelb, strange seltsam, clean sauber, ugly hässlich
    """,
    "clothes": """
        new neu, red rot, old alt, blue blau, warm warm, black schwarz, beautiful schön, green grün,
        expensive teuer/teur, white weiß, long lang, dirty schmutzig, thick dick, cheap billig,
        elegant elegant, short kurz
    """,
    "food": """
        fresh frisch, hot heiß, cold kalt, sweet süß, warm warm, good gut, cheap billig, delicious
        lecker, bitter bitter
    """,
    "fruit": """
        fresh frisch, big groß, sweet süß, small klein, good gut, cheap billig, delicious lecker,
        hard hart
    """,
    "reading": """
        long lang, interesting interessant, new neu, short kurz, old alt, boring langweilig, sad
        traurig, exciting spannend, funny lustig, difficult schwierig
    """,
    "place": """
        old alt, big groß, small klein, new neu, beautiful schön, dark dunkel/dunkl, quiet ruhig,
        famous berühmt, modern modern, empty leer, clean sauber
    """,
}
ADJECTIVES_OF_KIND = {
    **dict.fromkeys(("stranger", "family", "acquaintance"), "person"),
    **dict.fromkeys(("pet", "wild animal"), "animal"),
    **{kind: kind for kind in ("child", "clothes", "fruit", "reading", "place")},
    **dict.fromkeys(("standing", "lying", "furniture", "opening", "device", "vehicle"), "thing"),
    **dict.fromkeys(("dish", "drink"), "food"),
    **dict.fromkeys(("structure", "room", "spot"), "place"),
}

# Who does what to whom, both of them alive: here only the order of the words tells them apart.
VERBS_BETWEEN_BEINGS = """
    see/saw/seen*           sehen          sieht         gesehen          A         being>being
    chase                   jagen          jagt          gejagt           A         animal>animal
    look for                suchen         sucht         gesucht          A         being>being
    help                    helfen         hilft         geholfen         D         person>person
    wait for                warten         wartet        gewartet         auf A     being>being
    visit                   besuchen       besucht       besucht          A         person>person
    follow                  folgen         folgt         ist gefolgt      D         being>being
    feed/fed                füttern        füttert       gefüttert        A         person>animal
    watch                   beobachten     beobachtet    beobachtet       A         being>being
    call                    an|rufen       ruft          angerufen        A         person>person
    bite/bit/bitten         beißen         beißt         gebissen         A         animal>being
    love*                   lieben         liebt         geliebt          A         person>being
    invite                  ein|laden      lädt          eingeladen       A         person>person
    catch/caught            fangen         fängt         gefangen         A         being>animal
    talk to                 sprechen       spricht       gesprochen       mit D     person>person
    hear/heard*             hören          hört          gehört           A         being>being
    find/found*             finden         findet        gefunden         A         being>being
    listen to               zu|hören       hört          zugehört         D         person>person
    know/knew/known*        kennen         kennt         gekannt          A         person>person
    draw/drew/drawn         zeichnen       zeichnet      gezeichnet       A         person>being
    pick up                 ab|holen       holt          abgeholt         A         person>person
    play with               spielen        spielt        gespielt         mit D     being>being
    wake/woke/woken         wecken         weckt         geweckt          A         being>person
    thank                   danken         dankt         gedankt          D         person>person
    run/ran/run after       her|laufen     läuft         ist hergelaufen  hinter D  being>being
    hug                     umarmen        umarmt        umarmt           A         person>person
    photograph              fotografieren  fotografiert  fotografiert     A         person>being
    think/thought of        denken         denkt         gedacht          an A      person>person
    understand/understood*  verstehen      versteht      verstanden       A         person>person
    stroke                  streicheln     streichelt    gestreichelt     A         person>animal
    admire*                 bewundern      bewundert     bewundert        A         person>person
"""

VERBS_WITH_THINGS = """
    eat/ate/eaten            essen       isst       gegessen     A  person>food
    read/read/read           lesen       liest      gelesen      A  person>reading
    buy/bought               kaufen      kauft      gekauft      A  person>goods
    drink/drank/drunk        trinken     trinkt     getrunken    A  person>drink
    open                     öffnen      öffnet     geöffnet     A  person>openable
    look for                 suchen      sucht      gesucht      A  person>goods
    eat/ate/eaten            fressen     frisst     gefressen    A  animal>food
    repair                   reparieren  repariert  repariert    A  person>machine
    see/saw/seen*            sehen       sieht      gesehen      A  being>visible
    wear/wore/worn           tragen      trägt      getragen     A  person>clothes
    write/wrote/written      schreiben   schreibt   geschrieben  A  person>written
    close                    zu|machen   macht      zugemacht    A  person>openable
    find/found*              finden      findet     gefunden     A  person>goods
    clean                    putzen      putzt      geputzt      A  person>cleanable
    turn on                  an|machen   macht      angemacht    A  person>device
    drink/drank/drunk        trinken     trinkt     getrunken    A  animal>drunk by animals
    bake                     backen      backt      gebacken     A  person>baked
    tidy up                  auf|räumen  räumt      aufgeräumt   A  person>room
    carry                    tragen      trägt      getragen     A  person>portable
    sell/sold                verkaufen   verkauft   verkauft     A  person>goods
    wash                     waschen     wäscht     gewaschen    A  person>washable
    build/built              bauen       baut       gebaut       A  person>built
    pick up                  auf|heben   hebt       aufgehoben   A  person>lying
    turn off                 aus|machen  macht      ausgemacht   A  person>device
    paint                    streichen   streicht   gestrichen   A  person>paintable
    put/put/put on           an|ziehen   zieht      angezogen    A  person>clothes
    cut/cut/cut              schneiden   schneidet  geschnitten  A  person>fruit
    lose/lost*               verlieren   verliert   verloren     A  person>lying
    steal/stole/stolen       stehlen     stiehlt    gestohlen    A  person>goods
    need*                    brauchen    braucht    gebraucht    A  person>goods
    throw/threw/thrown away  weg|werfen  wirft      weggeworfen  A  person>portable
    hide/hid/hidden          verstecken  versteckt  versteckt    A  being>portable
    iron                     bügeln      bügelt     gebügelt     A  person>clothes
    take/took/taken off      aus|ziehen  zieht      ausgezogen   A  person>clothes
"""

VERBS_OF_GIVING = """
    give/gave/given  geben      gibt     gegeben     A  person>gift
    show             zeigen     zeigt    gezeigt     A  person>gift
    bring/brought    bringen    bringt   gebracht    A  person>gift
    send/sent        schicken   schickt  geschickt   A  person>gift
    read/read/read   vor|lesen  liest    vorgelesen  A  person>reading
    lend/lent        leihen     leiht    geliehen    A  person>gift
    buy/bought       kaufen     kauft    gekauft     A  person>gift
    tell/told        erzählen   erzählt  erzählt     A  person>tale
"""

VERBS_WITHOUT_OBJECT = """
    sleep/slept              schlafen          schläft   geschlafen               A  being>in
    work                     arbeiten          arbeitet  gearbeitet               A  person>in
    play                     spielen           spielt    gespielt                 A  being>in
    wait                     warten            wartet    gewartet                 A  being>in
    sing/sang/sung           singen            singt     gesungen                 A  person>in
    swim/swam/swum           schwimmen         schwimmt  ist geschwommen          A  being>alone
    dance                    tanzen            tanzt     getanzt                  A  person>in
    sit/sat                  sitzen            sitzt     gesessen                 A  being>at
    laugh                    lachen            lacht     gelacht                  A  person>alone
    cry                      weinen            weint     geweint                  A  person>alone
    get/got/got up           auf|stehen        steht     ist aufgestanden         A  being>alone
    cook                     kochen            kocht     gekocht                  A  person>in
    fall/fell/fallen asleep  ein|schlafen      schläft   ist eingeschlafen        A  being>in
    run/ran/run away         weg|laufen        läuft     ist weggelaufen          A  being>alone
    play football            Fußball spielen   spielt    Fußball gespielt         A  person>in
    wake/woke/woken up       auf|wachen        wacht     ist aufgewacht           A  being>in
    arrive                   an|kommen         kommt     ist angekommen           A  person>at
    come/came/come back      zurück|kommen     kommt     ist zurückgekommen       A  being>alone
    play the piano           Klavier spielen   spielt    Klavier gespielt         A  person>in
    smile                    lächeln           lächelt   gelächelt                A  person>alone
    go/went/gone home        nach Hause gehen  geht      ist nach Hause gegangen  A  person>alone
    go/went/gone shopping    einkaufen gehen   geht      ist einkaufen gegangen   A  person>alone
"""

VERBS_OF_MOTION = """
    go/went/gone        gehen     geht     ist gegangen    A  person>goal
    run/ran/run         laufen    läuft    ist gelaufen    A  being>goal
    come/came/come      kommen    kommt    ist gekommen    A  being>goal
    drive/drove/driven  fahren    fährt    ist gefahren    A  person>driven to
    jump                springen  springt  ist gesprungen  A  being>jumped into
"""

VERBS_OF_PLACING = """
    put/put/put  stellen  stellt  gestellt  A  person>standing
    put/put/put  legen    legt    gelegt    A  person>lying
"""

# "He tries to ...": followed by an infinitive.
VERBS_BEFORE_INFINITIVES = """
    try            versuchen    versucht    versucht     A  person>x
    hope*          hoffen       hofft       gehofft      A  person>x
    promise*       versprechen  verspricht  versprochen  A  person>x
    plan/planned*  planen       plant       geplant      A  person>x
"""

# "He says that ...", and "whether" for the last.
VERBS_BEFORE_CLAUSES = """
    say/said*         sagen    sagt    gesagt    A  person>x
    know/knew/known*  wissen   weiß    gewusst   A  person>x
    think/thought*    glauben  glaubt  geglaubt  A  person>x
    hear/heard*       hören    hört    gehört    A  person>x
    ask*              fragen   fragt   gefragt   A  person>x
"""

WEATHER_VERBS_TABLE = """
    rain     regnen    regnet   geregnet   A  x>x
    snow     schneien  schneit  geschneit  A  x>x
    thunder  donnern   donnert  gedonnert  A  x>x
"""
WEATHER_TABLE = """
    cold kalt, warm warm, hot heiß, dark dunkel, windy windig, sunny sonnig, foggy neblig,
    cloudy bewölkt
"""

# Verbs that only the words with two senses and the reasons below need.
OTHER_VERBS = """
    have/had/had*      haben          hat         gehabt          A       person>goods
    cross              überqueren     überquert   überquert       A       being>crossed
    jump over          springen       springt     ist gesprungen  über A  animal>jumped
    fit/fit/fit into*  passen         passt       gepasst         in A    fitting>container
    pull               ziehen         zieht       gezogen         A       animal>pulled
    rob                überfallen     überfällt   überfallen      A       person>x
    manage             leiten         leitet      geleitet        A       person>x
    oil                ölen           ölt         geölt           A       person>x
    change             wechseln       wechselt    gewechselt      A       person>x
    peel               schälen        schält      geschält        A       person>x
    tie                binden         bindet      gebunden        A       person>x
    pick               pflücken       pflückt     gepflückt       A       person>x
    fold               falten         faltet      gefaltet        A       person>x
    score              schießen       schießt     geschossen      A       person>x
    celebrate          feiern         feiert      gefeiert        A       person>x
    tune               stimmen        stimmt      gestimmt        A       person>x
    examine            untersuchen    untersucht  untersucht      A       person>x
    unscrew/unscrewed  heraus|drehen  dreht       herausgedreht   A       person>x
    bandage            verbinden      verbindet   verbunden       A       person>x
"""

# One German word, two English ones: the verb decides. These nouns occur with these verbs only.
SENSES_TABLE = """
    bench        die Bank     paint, build, repair, carry
    bank         die Bank     rob, manage, call, visit
    castle       das Schloss  visit, photograph, admire, see
    lock         das Schloss  repair, oil, change, open
    pear         die Birne    eat, peel, cut
    bulb         die Birne    change, turn on, turn off, unscrew
    rooster      der Hahn     feed, catch, stroke, hear
    tap          der Hahn     repair, clean, change, oil
    ostrich      der Strauß   feed, photograph, stroke, catch
    bouquet      der Strauß   tie, pick, carry, throw away
    blanket      die Decke    fold, wash, iron, carry
    ceiling      die Decke    paint, repair
    fly          die Fliege   catch, hear, watch
    bow tie      die Fliege   wear, iron, put on, take off
    gate         das Tor      open, close, paint, repair
    goal         das Tor      score, celebrate
    wing         der Flügel   examine, bandage
    grand piano  der Flügel   tune, repair, sell, buy
"""

# "It" finds its noun by the adjective: of the two nouns only one can be it. Polarity, verb, who
# does it, to what, adjectives of the first, adjectives of the second.
REASONS_TABLE = """
    not  cross      animal   crossed    tired, weak, sick, young  wide, muddy
    not  eat        animal   eaten      tired, sick, nervous      salty, hot, bitter, hard
    not  jump over  animal   jumped     tired, weak, fat, young   high, wide
    not  fit into   fitting  container  big, long, thick          narrow, full
    not  pull       puller   pulled     tired, weak, young        heavy, full
    so   eat        animal   eaten      hungry, greedy            fresh, delicious
"""
REASON_ADJECTIVES = """
    tired müde, weak schwach, sick krank, young jung, nervous nervös, fat dick, big groß, long lang,
    thick dick, hungry hungrig, greedy gierig, wide breit, muddy schlammig, salty salzig, hot heiß,
    bitter bitter, hard hart, high hoch/hoh, narrow eng, full voll, heavy schwer, fresh frisch,
    delicious lecker
"""
# Why somebody did not buy something: the pronoun takes the gender of what was not bought.
FLAWS_TABLE = (
    "expensive teuer, old alt, ugly hässlich, heavy schwer, big groß, small klein, dirty schmutzig"
)

# Kinds that are made of others, or of single words of other tables.
UNIONS = {
    "person": "stranger, family, child, acquaintance",
    "animal": "pet, wild animal",
    "being": "stranger, family, child, acquaintance, pet, wild animal",
    "food": "dish, fruit",
    "goods": "clothes, standing, lying, furniture, vehicle, device",
    "machine": "vehicle, device",
    "visible": "lying, standing, vehicle, structure",
    "portable": "lying, standing",
    "gift": "lying, reading, fruit, clothes",
    "indoors": "room, place",
    "anywhere": "place, spot, room",
    "goal": "place, room, spot",
    "driven to": "place, spot",
}
SELECTIONS = {
    "openable": "door, window, suitcase, box, bottle, cupboard, umbrella, letter, present",
    "drunk by animals": "water, milk",
    "baked": "cake, bread, pizza, biscuit, roll",
    "cleanable": "window, kitchen, bathroom, door, shoe, lamp",
    "washable": "shirt, dress, cup, car, glass, skirt, pillow",
    "paintable": "door, wall, fence, chair, table, window",
    "written": "letter, story, poem, novel, report, message, fairy tale",
    "built": "house, bridge, wall, tower, fence, boat, school, church, machine",
    "tale": "story, fairy tale",
    "outdoors": """
        garden, park, forest, beach, field, farm, meadow, lake, stable, mountain, zoo, village,
        market, river
    """,
    "entered": "kitchen, room, garden, office, cellar, bathroom, city, village, forest",
    "jumped into": "lake, river, garden, car, boat, kitchen, bus",
    "small animal": "cat, dog, mouse, rabbit, bird, chicken, monkey, hedgehog, frog",
    "open air": """
        park, city, village, beach, forest, mountain, lake, field, airport, market, farm, meadow
    """,
    "surface": "table, chair, bed, sofa, carpet",
    "cover": "table, chair, bed, sofa, cupboard, door, car",
    "owned": "dog, cat, horse, bicycle, car, coat, house, hat, bird, ball, suitcase, key, umbrella",
    "crossed": "street, river, field, bridge, meadow, market",
    "eaten": "sausage, bread, cheese, meat, soup, cake, egg, carrot, apple",
    "jumped": "fence, wall, bed, box, river, rope, bucket",
    "fitting": "lamp, pillow, umbrella, book, doll, carpet, rope, vase, hammer",
    "container": "suitcase, box, car, basket, shelf, bag",
    "puller": "horse, donkey, cow, camel, dog, elephant, goat",
    "pulled": "truck, boat, box, car, machine, tractor",
}

DAYS_TABLE = """
    Monday Montag, Tuesday Dienstag, Wednesday Mittwoch, Thursday Donnerstag, Friday Freitag,
    Saturday Samstag, Sunday Sonntag
"""
MONTHS_TABLE = """
    January Januar, February Februar, March März, April April, May Mai, June Juni, July Juli,
    August August, September September, October Oktober, November November, December Dezember
"""
# Adverbs of time by what they go with; the frequent ones first.
TIMES_TABLE = {
    "present": "today = heute, now = jetzt, at the moment = im Moment",
    "routine": """
        every day = jeden Tag, every morning = jeden Morgen, in the evening = am Abend, every week
        = jede Woche, in summer = im Sommer, in winter = im Winter, in spring = im Frühling, in
        autumn = im Herbst
    """,
    "past": """
        yesterday = gestern, last week = letzte Woche, this morning = heute Morgen,
        last night = letzte Nacht, last year = letztes Jahr, two days ago = vor zwei Tagen
    """,
    "future": """
        tomorrow = morgen, tonight = heute Abend, next week = nächste Woche, soon = bald,
        next year = nächstes Jahr, in two days = in zwei Tagen
    """,
}
FREQUENCIES_TABLE = (
    "often oft, always immer, never nie, sometimes manchmal, usually meistens, rarely selten"
)
POSITIONS_TABLE = "on = auf, under = unter, next to = neben, behind = hinter, in front of = vor"

COMPARATIVES_TABLE = """
    bigger größer, older älter, smaller kleiner, stronger stärker, faster schneller, younger
    jünger, slower langsamer, louder lauter, heavier schwerer, more beautiful schöner, more
    dangerous gefährlicher
"""
NAMES_TABLE = (
    "Anna Peter Maria Paul Emma Lukas Laura Jan Lena Felix Clara Martin Julia Tom Sophie Oskar"
)
